"""Generated code that tells how its calls end: torch-free."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from graphmend_bc.rewriting.verified import Listener, with_listener


def generated(x: int) -> float:
    try:
        return 6 / x
    except TypeError:
        return -1.0


def _listened_to(told: list[object], fail: Callable[..., Any]) -> Callable[[object], float]:
    def leave(call: object, value: object) -> object:
        told.append((call, value))
        return value

    listener = Listener(lambda cells, values: values, leave, fail)
    return FunctionType(with_listener(generated.__code__, listener), globals())


@pytest.mark.parametrize(("given", "value"), [(2, 3.0), ("2", -1.0)])
def test_a_call_returns(given: object, value: float) -> None:
    told: list[object] = []
    assert _listened_to(told, told.append)(given) == value
    assert told == [((given,), value)]


def test_a_call_raises() -> None:
    told: list[object] = []
    function = _listened_to(told, lambda call, error: told.append((call, type(error))))
    with pytest.raises(ZeroDivisionError) as found:
        function(0)
    assert found.value.__context__ is None
    assert told == [((0,), ZeroDivisionError)]
    assert sys.exc_info()[1] is None


def test_the_listener_raises() -> None:
    def fail(call: object, error: BaseException) -> None:
        raise AssertionError("it differs")

    around = LookupError()
    try:
        raise around
    except LookupError:
        with pytest.raises(AssertionError) as found:
            _listened_to([], fail)(0)
        handled = sys.exc_info()[1]
    assert handled is around
    assert type(found.value.__context__) is ZeroDivisionError
    assert sys.exc_info()[1] is None
