"""Which functions are known to do no more on the host than compute and draw."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphmend_bc.dynamo.random_draws.host_code import check_host_code, draws_on_host
from graphmend_bc.reporting.reasons import Refused

SCALE = 2.0
TABLE = [1, 2, 3]


def helper(n: int) -> Any:
    return np.random.randint(0, n, size=3)


def with_default(n: int = 3) -> Any:
    return np.random.rand(n)


def draws(n: int) -> Any:
    return np.random.rand(n).tolist()


def calls_another(n: int) -> list[int]:
    return [int(k) for k in helper(n)]


def writes_global(n: int) -> Any:
    global SCALE
    SCALE = n
    return np.random.rand(n)


def prints(n: int) -> Any:
    print(n)
    return np.random.rand(n)


def calls_with_default(n: int) -> Any:
    return with_default(n)


def generates(n: int) -> Any:
    def inner() -> Any:
        yield np.random.rand(n)

    return list(inner())


def computes(n: int) -> int:
    return n + 1


@pytest.mark.parametrize(
    ("function", "looks", "is_known"),
    [
        (draws, True, True),
        (calls_another, False, True),
        (computes, False, True),
        (writes_global, True, False),
        (prints, True, False),
        (calls_with_default, False, False),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_functions(function: Callable[..., Any], looks: bool, is_known: bool) -> None:
    if is_known:
        check_host_code(function.__code__, globals())
        assert draws_on_host(function.__code__) is looks
    else:
        with pytest.raises(Refused, match="draw-not-host"):
            check_host_code(function.__code__, globals())


def test_what_suspends_is_refused() -> None:
    with pytest.raises(Refused, match="suspends"):
        check_host_code(generates.__code__, globals())


def test_what_it_rests_on_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = check_host_code(calls_another.__code__, globals())
    assert all(known.is_still() for known in found)
    monkeypatch.setattr(np.random, "randint", random.randint)
    assert not all(known.is_still() for known in found)
