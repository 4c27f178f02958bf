"""A process of its own: it keeps an object, answers in order, and says how it ended."""

from __future__ import annotations

import os

import pytest
from worker import Worker


class Counter:
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, number: int) -> tuple[int, int]:
        self.value += number
        return self.value, os.getpid()

    def fail(self) -> None:
        raise ValueError("no such thing")

    def leave(self) -> None:
        os._exit(3)


def test_worker() -> None:
    worker = Worker(Counter, 5)
    (first, pid), (second, same) = worker.ask("add", 1), worker.ask("add", 2)
    assert (first, second) == (6, 8)
    assert pid == same != os.getpid()
    with pytest.raises(RuntimeError, match="ValueError: no such thing"):
        worker.ask("fail")
    assert worker.ask("add", 0)[0] == 8
    with pytest.raises(RuntimeError, match="ended with status 3"):
        worker.ask("leave")
    worker.close()


def test_object_that_cannot_be_made() -> None:
    worker = Worker(Counter)
    with pytest.raises(RuntimeError, match="TypeError"):
        worker.ask("add", 1)
    worker.close()
