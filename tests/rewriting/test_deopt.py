"""Generated code that deoptimises: torch-free."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from graphmend_bc.rewriting.deopt import with_deopt
from graphmend_bc.runtime.deoptimise import Deoptimise, Deoptimizer


class Empty(Exception):
    """An exception that is false."""

    def __len__(self) -> int:
        return 0


def original(x: int, *rest: int, key: int = 0, **more: int) -> Any:
    if x < 0:
        raise Empty(x)
    if x == 0:
        return [1 // x]
    return x, rest, key, more, sys.exc_info()[1]


def generated(x: int, *rest: int, key: int = 0, **more: int) -> Any:
    try:
        x += 1
        raise Deoptimise if x < 100 else KeyError(x)
    except ValueError:
        return "handled"


def _with_deoptimisation(cells: tuple[Any, ...] = ()) -> Callable[..., Any]:
    run = Deoptimizer(original.__code__, globals()).run
    code = with_deopt(generated.__code__, original.__code__, run)
    function = FunctionType(code, globals(), "original", None, cells)
    function.__kwdefaults__ = {"key": 0}
    return function


def _outcome(function: Callable[..., Any], *args: int) -> Any:
    """The result, or the exception with its context and the lines of its traceback."""
    try:
        try:
            raise LookupError
        except LookupError:
            return function(*args, key=3, other=4)
    except Exception as error:
        entries = traceback.extract_tb(error.__traceback__)[1:]
        lines = [(entry.name, entry.lineno) for entry in entries]
        return type(error), error.args, type(error.__context__), error.__cause__, lines


@pytest.mark.parametrize("args", [(1, 5), (0,), (-1, 2, 3)])
def test_a_miss_is_what_the_original_code_does(args: tuple[int, ...]) -> None:
    wanted, found = _outcome(original, *args), _outcome(_with_deoptimisation(), *args)
    assert repr(found) == repr(wanted)
    assert sys.exc_info() == (None, None, None)


def test_other_exceptions_pass() -> None:
    kind, args, context, _, lines = _outcome(_with_deoptimisation(), 200)
    assert (kind, args, context) == (KeyError, (201,), LookupError)
    assert len(lines) == 1
