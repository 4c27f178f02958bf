"""One compiled function called by many threads at once, wrong guesses and all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch

import graphmend_bc as gm

UP = torch.tensor([1.0, 2.0, 3.0])
THREADS, CALLS = 8, 60


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def branches(x: torch.Tensor) -> object:
    y = x + 1
    if y.sum() < 0:
        return str(y), 2
    if torch.isinf(y).any():
        y = y.clamp(max=1)
    if y.max() > 20:
        raise ValueError(f"large: {y}")
    return y * 2


def each_calls(function: Callable[[torch.Tensor], object]) -> list[list[str]]:
    """What each thread saw."""
    together = Barrier(THREADS)

    def one(number: int) -> list[str]:
        together.wait()
        return [_told(function, UP * (number + 1) * _sign(number + i)) for i in range(CALLS)]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def _sign(number: int) -> int:
    return -1 if number % 5 == 0 else 1


def _told(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> str:
    try:
        return repr(function(x))
    except ValueError as error:
        return repr(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_threads_see_what_they_see_in_eager(backend: str) -> None:
    with gm.enabled():
        found = each_calls(torch.compile(branches, backend=backend))
    assert found == each_calls(branches)


def test_guesses_change_while_others_call() -> None:
    """A cache entry that is given up must not be freed under a thread that looks at it."""
    with gm.config.patch(miss_limit=1, turn_limit=100), gm.enabled():
        found = each_calls(torch.compile(branches, backend="eager"))
    assert found == each_calls(branches)


def test_writes_of_other_threads_are_not_taken_back() -> None:
    count = torch.zeros(1)

    def f(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP)
        count.zero_()
        each_calls(lambda x: compiled(x.abs()))
    assert count.item() == THREADS * CALLS
