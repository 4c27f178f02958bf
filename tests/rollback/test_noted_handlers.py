"""Whether a handler of the program's may stand around operators of the graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType, SimpleNamespace
from typing import Any

import torch
from torch._dynamo.variables.ctx_manager import GenericContextWrappingVariable

from graphmend_bc.dynamo.rollback.rollback_analysis import note_frame, note_inlined
from tests.rollback.attempts import Attempt


def handling() -> None:
    with contextlib.suppress(ValueError):
        pass
    try:
        print()
    finally:
        print()


def plain() -> None: ...


def generator() -> Iterator[None]:
    try:
        yield
    finally:
        print()


def plain_generator() -> Iterator[None]:
    yield


async def coroutine() -> None:
    try:
        print()
    finally:
        print()


class Manager:
    def close(self, *error: object) -> None: ...

    def __exit__(self, *error: object) -> None: ...


class Renamed(Manager):
    __exit__ = Manager.close


def torchs(function: Callable[..., object]) -> CodeType:
    """The code of a function as if it were one of torch's."""
    return function.__code__.replace(co_filename=torch.__file__)


def test_frames() -> None:
    def noted(code: CodeType) -> bool:
        attempt = Attempt()
        note_frame(attempt.trace, code)
        return attempt.rollback.handles

    assert noted(handling.__code__)
    assert not noted(plain.__code__)
    assert not noted(torchs(handling))


def noted(code: CodeType, manager: Any = None, *, runs: str = "", handles: bool = False) -> str:
    """When it is noted that a callee handles: "at once", "when it ran", or "" for never."""
    attempt = Attempt()
    attempt.rollback.handles = handles
    attempt.given(torch.ones(3))
    first: Any = object()
    if manager is not None:
        first = GenericContextWrappingVariable(manager)

    def run() -> None:
        if runs:
            attempt.graph.call_function(torch.relu)
        if runs == "raises":
            raise ValueError

    tracer = SimpleNamespace(output=attempt, symbolic_locals={"self": first}, run=run)
    note_inlined(attempt.trace, tracer, code)
    if attempt.rollback.handles and not handles:
        assert tracer.run is run
        return "at once"
    with contextlib.suppress(ValueError):
        tracer.run()
    return "when it ran" if attempt.rollback.handles else ""


def test_callees_handle_for_operators_of_their_own() -> None:
    assert noted(handling.__code__, runs="operator") == "when it ran"
    assert noted(handling.__code__, runs="raises") == "when it ran"
    assert noted(handling.__code__, handles=True) == "when it ran"
    assert noted(handling.__code__) == ""
    assert noted(plain.__code__, runs="operator") == ""
    assert noted(torchs(handling), runs="operator") == ""


def test_what_stands_around_operators_of_others() -> None:
    assert noted(generator.__code__) == "at once"
    assert noted(coroutine.__code__) == "at once"
    assert noted(plain_generator.__code__, runs="operator") == ""
    assert noted(Manager.__exit__.__code__) == "at once"
    assert noted(torchs(Manager.__exit__)) == ""


def test_exits_by_another_name() -> None:
    assert noted(Manager.close.__code__, Renamed()) == "at once"
    assert noted(Manager.close.__code__, Manager()) == ""
    assert noted(Manager.close.__code__) == ""


def test_managers_of_generators_leave_it_to_these() -> None:
    kind = contextlib._GeneratorContextManager
    assert noted(kind.__exit__.__code__) == ""
    assert noted(kind.__enter__.__code__, runs="operator") == ""
