"""A backend that fails, while it compiles or when its graph is called: as with stock torch.compile."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from graphmend_bc import session
from tests.faults.planted import surroundings

_ADDRESS = re.compile("0x[0-9a-f]+")
UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


class BackendError(Exception):
    """Of no class that operators raise."""


class Backend:
    """Fails in one compilation, or in one call of a graph.

    Args:
        when: "compile", "call", or "later" for the second call of a graph.
        kind: of the error.
        times: how often it fails; None for always.
    """

    def __init__(self, when: str, kind: type[BaseException], times: int | None) -> None:
        self.when, self.kind, self.left = when, kind, times

    def __call__(self, graph: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        self._fail("compile")
        calls = 0

        def run(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            self._fail("call" if calls == 1 else "later")
            return graph(*args)

        return run

    def _fail(self, where: str) -> None:
        if where == self.when and self.left != 0:
            self.left = None if self.left is None else self.left - 1
            raise self.kind("planted")


class Program:
    """Branches, state and effects, in one function."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        self.seen.append("whole")
        return y


def outcome(when: str, kind: type[BaseException], times: int | None, mends: bool) -> list[Any]:
    """What four calls come to, and what is left of them."""
    torch._dynamo.reset()
    program, seen = Program(), list[Any]()
    with session.mending_by(session.new_state(mends=mends)):
        compiled = torch.compile(program.__call__, backend=Backend(when, kind, times))
        for x in (UP, DOWN, UP, DOWN):
            try:
                seen.append(compiled(x).tolist())
            except BaseException as error:
                seen.append((type(error), _ADDRESS.sub("", str(error)).partition("\n")[0]))
    return [seen, program.seen]


KINDS = [RuntimeError, BackendError, MemoryError, KeyboardInterrupt]


@pytest.mark.parametrize("times", [1, None])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suppress", [False, True])
def test_while_it_compiles(suppress: bool, kind: type[BaseException], times: int | None) -> None:
    before = surroundings()
    with torch._dynamo.config.patch(suppress_errors=suppress):
        stock = outcome("compile", kind, times, mends=False)
        mended = outcome("compile", kind, times, mends=True)
    # A mended graph that the backend refuses is compiled once more, as stock's.
    expected = (
        outcome("never", kind, 0, mends=True)
        if times == 1 and kind is not KeyboardInterrupt
        else stock
    )
    assert mended == expected
    assert surroundings() == before


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["call", "later"])
@pytest.mark.parametrize("suppress", [False, True])
def test_when_its_graph_is_called(suppress: bool, when: str, kind: type[BaseException]) -> None:
    with torch._dynamo.config.patch(suppress_errors=suppress):
        stock = outcome(when, kind, 1, mends=False)
        mended = outcome(when, kind, 1, mends=True)
    assert mended == stock
