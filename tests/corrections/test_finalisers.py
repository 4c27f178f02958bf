"""Objects that a function makes and whose end is noticed run what eager Python runs, when it does."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc import session
from tests.oracle import check, load

CALLS = [torch.ones(3), -torch.ones(3), torch.ones(3), torch.arange(3.0), torch.ones(3)]

HEAD = """
import contextlib
import weakref

ended = []

class Held:
    def __init__(self, x, name="held"):
        self.x, self.name = x, name
    def __del__(self):
        ended.append(self.name)

class Derived(Held):
    pass

class Plain:
    def __init__(self, x):
        self.x = x
    def close(self):
        ended.append("closed")

def note(*args):
    ended.append(len(args))

def f(x):
"""


def compared(body: str, line: int, **kwargs: object) -> None:
    """The program is left, and does in each call what eager Python does."""
    source = HEAD + "".join(f"    {text}\n" for text in body.strip().splitlines())
    check(source, CALLS, declines=f"object-finalised@{line}", breaks=None, **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("held = Held(x)\ny = held.x.sum()\ndel held\nreturn y + len(ended), ended[-1]", 25),
        ("held = Held(x)\nprint(x.sum())\nreturn x + len(ended)", 25),
        ("held = Derived(x, name='derived')\nheld = None\nreturn x * len(ended)", 25),
        ("y = Held(x).x + 1\nif y.sum() > 0:\n    y = y * 2\nreturn y * len(ended)", 25),
        ("for k in range(3):\n    held = Held(x + k, name=k)\nreturn held.x, list(ended)", 26),
        ("held = 0\nif x.sum() > 0:\n    held = Held(x)\nreturn x + 1, len(ended), held == 0", 27),
        ("plain = Plain(x)\nweakref.finalize(plain, note)\ndel plain\nreturn x + len(ended)", 26),
        ("plain = Plain(x)\nr = weakref.ref(plain, note)\ndel plain\nreturn x + 1, r()", 26),
        ("plain = Plain(x)\nr = weakref.ref(plain)\nplain = 1\nreturn x + 1, r() is None", 26),
        ("held = object.__new__(Held)\nheld.name = 'bare'\ndel held\nreturn x, ended[-1]", 25),
        ("with contextlib.closing(Held(x)) as h:\n    h.close = note\nreturn x, len(ended)", 25),
    ],
)
def test_the_end_of_an_object(body: str, line: int) -> None:
    compared(body, line)


def test_an_object_that_a_callee_makes() -> None:
    check(
        HEAD.replace(
            "def f(x):", "def f(x):\n    y = g(x)\n    print(y.sum())\n    return y + len(ended)"
        )
        + """
def g(x):
    held = Held(x)
    return held.x * 2
""",
        CALLS,
        declines="object-finalised@30",
        breaks=None,
    )


def test_an_object_that_is_given_back_ends_when_the_caller_drops_it() -> None:
    check(
        HEAD
        + """    print(x.sum())
    return Held(x).name, [Held(x, name="kept")][0].x, len(ended)
""",
        CALLS,
        declines="object-finalised@26",
        breaks=None,
    )


def test_objects_whose_end_nobody_notices_are_compiled() -> None:
    check(
        HEAD
        + """    plain = Plain(x)
    print(plain.x.sum())
    y = plain.x + 1
    del plain
    return y * len(ended)
""",
        CALLS,
        mends="defer@26",
        breaks=None,
    )


def test_what_was_there_before_and_has_a_finaliser_is_compiled() -> None:
    check(
        HEAD.replace("def f(x):", "kept = Held(0)\ndef f(x):")
        + """    if x.sum() > 0:
        x = x * 2
    return x + kept.x, weakref.ref(kept)() is kept
""",
        CALLS,
        mends="where@26",
    )


def test_one_graph_stays_one_graph() -> None:
    """The finaliser runs where stock runs it."""
    torch._dynamo.reset()
    with session.mending_by(session.new_state(mends=True)):
        module = load(HEAD + "    held = Held(x)\n    return held.x + 1\n")
        compiled = torch.compile(module.f, backend="eager", fullgraph=True)
        for x in CALLS:
            assert torch.equal(compiled(x), x + 1)
