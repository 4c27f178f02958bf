"""Settings that texts depend on: print options, the default dtype, what loggers and warnings use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]) / 7, torch.tensor([-1.0, -2.0, -3.0]) / 7
BOTH = [UP, DOWN]

HEAD = """
import sys, warnings
import torch._tensor_str as texts

log = logging.getLogger("program")

def change(number):
    torch.set_printoptions(profile="default")
    torch.set_default_dtype(torch.float32)

def options(digits):
    torch.set_printoptions(precision=digits)

def dtype(bits):
    torch.set_default_dtype(torch.float64 if bits == 64 else torch.float32)
"""
FIRST = HEAD.count("\n") + 2  # the first line of the body of `f`


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    torch.set_printoptions(profile="default")
    torch.set_default_dtype(torch.float32)


def program(body: str, before: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}{before}\ndef f(x):\n{lines}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "show",
    [
        "print(x * 2)",
        "print([x.sum(), 1])",
        "print(str(x * 3))",
        "sys.stdout.write(repr(x))",
        "warnings.warn(str(x))",
    ],
)
@pytest.mark.parametrize("setting", ["options(2)", "dtype(64)"])
@pytest.mark.parametrize("back", ["options(4); dtype(32)", "pass"])
def test_text_after_a_setting(show: str, setting: str, back: str) -> None:
    agrees(program(f"print('begin')\n{setting}\n{show}\n{back}\nreturn x + 1"), BOTH)


@pytest.mark.parametrize("text", ["f'{x}'", "f'{x!r}'", "'{}'.format(x)", "f'{o}'"])
def test_text_that_is_made_under_another_dtype(text: str) -> None:
    before = """
class Holder:
    def __repr__(self):
        return f"<{self.held}>"

o = Holder()
"""
    body = f"o.held = x\nprint(x.shape)\ndtype(64)\nprint({text})\ndtype(32)\nreturn x + 1"
    agrees(program(body, before), BOTH)


@pytest.mark.parametrize(
    ("body", "declines"),
    [
        ("options(2)\nprint(x)\noptions(4)", 1),
        ("with texts.printoptions(precision=1):\n    print(x)", 1),
        ("texts.PRINT_OPTS.precision = 1\nprint('x', x)\ntexts.PRINT_OPTS.precision = 4", 1),
        ("inner(x)\ntorch.set_printoptions(profile='default')", -3),
        ("dtype(64)\nprint(x)\ndtype(32)", 1),
        ("print(x)\ndtype(64)", 0),
    ],
)
def test_what_is_shown_under_a_setting_is_declined(body: str, declines: int) -> None:
    before = "\ndef inner(x):\n    torch.set_printoptions(linewidth=12)\n    print(x)\n"
    line = FIRST + declines + before.count("\n")
    outcome = agrees(program(f"{body}\nreturn x * 2", before), BOTH)
    assert f"effect-settings@{line}" in outcome.declines


@pytest.mark.parametrize(
    "body",
    [
        "print(x)\noptions(2)",
        "options(2)\nprint('begin', x.shape)\nlog.warning('%.3f', x.sum().item())\noptions(4)",
        "dtype(64)\nlog.warning(f'{x.sum().item():.2f}')\ndtype(32)",
        "dtype(64)\ny = x + torch.ones(3).float()\ndtype(32)\nprint(x, y)",
    ],
)
def test_what_does_not_depend_on_a_setting_is_deferred(body: str) -> None:
    outcome = check(program(f"{body}\nreturn x + 1"), BOTH, mends=None, orders=1)
    assert "defer" in outcome.mends


@pytest.mark.parametrize("order", [(UP, DOWN, UP), (DOWN, UP, UP)])
def test_in_an_arm(order: tuple[torch.Tensor, ...]) -> None:
    body = """y = x * 2
if y.sum() > 0:
    options(1)
    print("up", y)
    options(4)
    y = y + 1
print("end", y)
return y"""
    agrees(program(body), list(order))


def test_a_text_that_is_made_before_and_shown_under_a_setting() -> None:
    body = "text = f'{x * 2}'\noptions(2)\nprint(text)\noptions(4)\nreturn x + 1"
    check(program(body), BOTH, mends=f"defer@{FIRST + 2}")


def test_a_text_that_is_made_under_a_setting_is_not_deferred() -> None:
    body = "options(2)\ntext = f'{x * 2}'\nlog.warning(text)\noptions(4)\nreturn x + 1"
    torch._dynamo.reset()
    with gm.enabled():
        torch.compile(load(program(body)).f, backend="eager")(UP)
        assert [decline.reason for decline in gm.report().declines] == ["effect-settings"]


def test_a_text_that_is_made_under_a_setting_and_returned() -> None:
    body = "print('now')\ntext = str(x)\ndtype(64)\nreturn x + 1, text"
    agrees(program(body), BOTH)


@pytest.mark.parametrize(
    "body",
    [
        "warnings.filters.insert(0, ('ignore', None, Warning, None, 0))\n{}\ndel warnings.filters[0]",
        "old = warnings.showwarning\nwarnings.showwarning = shown\n{}\nwarnings.showwarning = old",
        "logging._levelToName[30] = 'LOUD'\n{}\nlogging._levelToName[30] = 'WARNING'",
        "logging.logProcesses = False\n{}\nlogging.logProcesses = True",
    ],
)
def test_what_a_logger_or_warning_uses(body: str) -> None:
    before = "\ndef shown(message, *args):\n    print('shown', message)\n"
    shows = "log.warning('loud')" if "logging" in body else "warnings.warn('loud')"
    source = program(body.format(shows).replace("{}", shows) + "\nreturn x + 1", before)
    line = FIRST + before.count("\n") + (2 if "old" in body else 1)
    outcome = agrees(source, BOTH)
    assert f"effect-settings@{line}" in outcome.declines
