"""Methods of text, called on a member of an enumeration of texts."""

from __future__ import annotations

from enum import StrEnum

import pytest
import torch

from graphmend_bc.rules.enum_texts import METHODS
from tests.oracle import Change, check
from tests.releases import STOCK_RAISES, since

pytestmark = pytest.mark.skipif(not since(2, 13), reason=STOCK_RAISES)

X = torch.tensor([1.0, -2.0, 3.0])

MODES = """
from enum import Enum

class Mode(str, Enum):
    PLAIN = "plain"
    WIDE = " wide "

    def __str__(self):
        return self.name

mode = Mode.PLAIN
"""  # 11 lines


def _of(body: str) -> str:
    return f"{MODES}\ndef f(x):\n    return {body}"


@pytest.mark.parametrize(
    "body",
    [
        "x * 2, mode.strip()",
        "x * len(mode.upper()), mode.upper()",
        "x + 1 if mode.startswith('pl') else x - 1",
        "x + 1 if mode.startswith(('a', 'wi'), 1) else x - 1",
        "x + mode.count('l'), mode.find('z'), mode.split('a'), mode.replace('a', 'b', 1)",
        "x * 2, mode.encode(), mode.center(12, '*'), mode.islower()",
        "x * 2, Mode(' wide ').strip(), Mode['PLAIN'].title()",
    ],
)
def test_it_is_the_method_of_the_text(body: str) -> None:
    change = Change("mode = Mode.WIDE if mode is Mode.PLAIN else Mode.PLAIN")
    check(_of(body), [X, -X, change, X, X, change, X], mends=None, orders=2)


def test_format_may_give_the_member_itself() -> None:
    check(_of("x * 2, mode.format(), mode.format(3) is mode"), [X, -X], "", None, breaks=None)


def test_what_the_other_methods_give_is_no_member() -> None:
    class Mode(StrEnum):
        A = "a"

    given: dict[str, tuple[object, ...]] = {
        "replace": ("b", "c"),
        "translate": ({},),
        "join": (["b"],),
        "zfill": (1,),
        "maketrans": ({},),
        **dict.fromkeys(("center", "ljust", "rjust"), (1,)),
        **dict.fromkeys(("removeprefix", "removesuffix", "count", "find", "rfind"), ("b",)),
        **dict.fromkeys(("startswith", "endswith"), ("b",)),
        **dict.fromkeys(("index", "rindex", "partition", "rpartition"), ("a",)),
    }
    for name in METHODS:
        found = getattr(Mode.A, name)(*given.get(name, ()))
        parts = found if isinstance(found, (list, tuple)) else [found]
        assert not any(isinstance(part, Mode) for part in parts), name


def test_a_member_is_an_argument() -> None:
    source = f"{MODES}\ndef f(x, n):\n    return x * 2 if (Mode.PLAIN, mode)[n].strip() == 'wide' else -x"
    calls = [(X, 0), (X, 1), Change("mode = Mode.WIDE"), (X, 0), (X, 1)]
    check(source, calls, "polyfill@13", orders=1)


@pytest.mark.parametrize(
    "body", ["x * 2, mode.index('z')", "x * 2, mode.strip(3)", "x * 2, mode.join(3)"]
)
def test_what_raises_raises_as_in_eager_python(body: str) -> None:
    check(_of(body), [X, -X], mends=None, declines=None, breaks=None)


def test_an_exception_is_caught_where_eager_python_catches_it() -> None:
    source = f"""{MODES}
def f(x):
    try:
        place = mode.index("w")
    except ValueError as error:
        place = str(error)
    return x * 2, place
"""
    change = Change("mode = Mode.WIDE if mode is Mode.PLAIN else Mode.PLAIN")
    check(source, [X, change, X, change, X], mends=None, declines=None, breaks=None)


@pytest.mark.parametrize(
    "change",
    [
        "Mode.strip = lambda self: 'mine'",
        "mode.strip = lambda: 'its own'",
        "mode = 'text '",
        "mode = Mode.WIDE",
        "mode.__dict__['strip'] = lambda: 'its own'",
    ],
)
def test_a_method_that_comes_later_is_called(change: str) -> None:
    check(_of("x * 2, mode.strip()"), [X, X, Change(change), X, X], mends=None, orders=1)


def test_a_class_that_is_changed_for_a_member_without_a_name() -> None:
    body = "x * 2, Mode('plain').strip()"
    calls = [X, X, Change("Mode.strip = lambda self: 'mine'"), X, X]
    check(_of(body), calls, mends=None, declines=None, breaks=None, orders=1)


@pytest.mark.parametrize(
    "members",
    [
        "def strip(self):\n        return 'mine'",
        "def __getattribute__(self, name):\n"
        "        return (lambda: name) if name == 'strip' else super().__getattribute__(name)",
        "def __init__(self, text):\n        self.strip = lambda: 'its own'",
    ],
)
def test_a_method_of_its_own_is_traced_or_left(members: str) -> None:
    source = f"""
from enum import Enum

class Mode(str, Enum):
    {members}

    PLAIN = " plain "

mode = Mode.PLAIN

def f(x):
    return x * 2, mode.strip()
"""
    check(source, [X, -X], mends="", declines=None, breaks=None)
