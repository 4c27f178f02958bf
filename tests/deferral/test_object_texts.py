"""Texts of the user's objects: what the object is where the program makes the text, in each call."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])

CLASSES = """
class Meter:
    def __init__(self):
        self.total = torch.zeros(())
        self.seen = 0

    def __repr__(self):
        return f"Meter({float(self.total)}, {self.seen})"

class Tally:
    def __init__(self):
        self.total, self.seen = torch.zeros(()), 0

    def __str__(self):
        return f"tally {self.seen}"

    def __format__(self, spec):
        return f"<{self.seen:{spec}}>"

class Shown:
    def __init__(self):
        self.total, self.seen = torch.zeros(()), 0

    def __repr__(self):
        self.seen += 1
        return f"shown {self.seen}"

meter = {}()
lines = []
"""

FORMS = [
    '"%s %r" % (meter, 1)',
    '"%s" % (meter,)',
    '"%s" % meter',
    '"{} / {!s}".format(meter, meter)',
    '"{m}".format(m=meter)',
    'f"{meter}: {x.sum()}"',
    'f"{meter!s:>20}"',
    '", ".join([str(meter), "end"])',
    "str(meter)",
    "format(meter)",
    'f"{[meter]}"',
]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["Meter", "Shown"])
def test_kept_before_and_after_a_change(form: str, kind: str) -> None:
    form = form.replace(", 1)", ", meter)") if kind == "Meter" else form
    found = agrees(
        CLASSES.replace("{}()", f"{kind}()")
        + f"""
def f(x):
    lines.append({form})
    if x.sum() > 0:
        meter.seen += 1
    meter.total.add_(x.sum())
    print({form})
    meter.total = meter.total + x.max()
    lines.append({form})
    return x + 1
""",
        [UP, DOWN, UP],
        orders=2,
    )
    assert found.mends or found.breaks


@pytest.mark.parametrize("change", ["meter.total.add_(x[0])", "meter.total = meter.total + x[0]"])
def test_percent_in_a_print(change: str) -> None:
    check(
        CLASSES.replace("{}()", "Meter()")
        + f"""
def f(x):
    print("%s %r" % (meter, meter))
    {change}
    print("%s %r" % (meter, meter))
    return x + 1
""",
        [UP, DOWN, UP],
        mends="defer@7 defer@31 defer@33",
    )


def test_format_of_an_objects_own() -> None:
    check(
        CLASSES.replace("{}()", "Tally()")
        + """
def f(x):
    print(f"{meter}", format(meter, "3d"), x.sum())
    meter.seen += 1
    lines.append(f"{meter} {meter!s}")
    return x + 1
""",
        [UP, DOWN, UP],
        mends="defer@31",
    )


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def test_objects_that_another_call_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor, a: object, b: object) -> str:
        print(x.sum(), f"{a!r}")
        return f"{a!s} {b!s} {b!r}" + str(a)

    pairs = [(object(), Named("a")), (Named("b"), object()), (Named("c"), Named("d"))]
    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for a, b in pairs:
            assert compiled(UP, a, b) == f(UP, a, b)
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == lines[1::2]


def test_text_made_in_a_callee_and_shown_after_a_write() -> None:
    check(
        CLASSES.replace("{}()", "Meter()")
        + """
logger = logging.getLogger("program")

def told(kind):
    return f"{kind}={meter}"

def f(x):
    text = told("before")
    meter.total.mul_(2).add_(1)
    logger.warning("%s, now %s", text, told("after"))
    return x.cos()
""",
        [UP, DOWN, UP],
        mends="defer@7 defer@38",
    )
