"""attach under load: many threads, many rounds, forks, nested compilations, interruptions."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm
from graphmend_bc.attachment import frame_hooks
from tests.attachment import vendor

hooks = pytest.importorskip("graphmend_bc._frame_hooks")

X = torch.tensor([1.0, 2.0])


@pytest.fixture(autouse=True)
def nothing_left_attached() -> Iterator[None]:
    yield
    assert not hooks.installed()
    assert get_eval_frame_callback() is None


@pytest.mark.slow
def test_ten_thousand_attachments_leave_reference_counts_level() -> None:
    code = vendor.double.__code__
    things = [vendor.double, code, hooks, frame_hooks, X]

    def level() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    def round_(number: int) -> None:
        target = vendor.double if number % 2 else "tests.attachment.vendor:double*"
        handle = gm.attach(target, backend="eager")
        if number % 100 == 0:
            vendor.double(X)
        handle.remove()

    for number in range(200):
        round_(number)
    before = level()
    for number in range(10_000):
        round_(number)
    assert level() == before


def test_eight_threads_attach_call_and_remove() -> None:
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        choose, mine = random.Random(seed), []
        try:
            for _ in range(60):
                step = choose.randrange(4)
                if step == 0:
                    target = choose.choice(
                        [vendor.double, "tests.attachment.vendor:*", vendor.Scaled]
                    )
                    mine.append(gm.attach(target, backend="eager"))
                elif step == 1 and mine:
                    mine.pop(choose.randrange(len(mine))).remove()
                assert torch.equal(vendor.double(X), X * 2)
                assert torch.equal(vendor.outer(X), X * 2 + 1)
                assert torch.equal(vendor.Scaled(3.0)(X), X * 3)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            for handle in mine:
                handle.remove()

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(0.005)
    assert failures == []


def test_a_forked_child_calls_attaches_and_detaches() -> None:
    stop = threading.Event()

    def busy() -> None:  # holds the lock of the attachments again and again while we fork
        while not stop.is_set():
            gm.attach(vendor.outer, backend="eager").remove()

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        with gm.attach(vendor.double, backend="eager") as handle:
            vendor.double(X)
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    ok = torch.equal(vendor.double(X), X * 2)
                    with gm.attach(vendor.without_grad, backend="eager"):
                        ok = ok and hooks.installed()
                    handle.remove()
                    os._exit(0 if ok else 1)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        thread.join()


def test_an_attached_function_called_while_dynamo_compiles_another() -> None:
    inner = CompileCounter()

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        assert torch.equal(vendor.double(X), X * 2)  # as a backend written in Python may do
        return module.forward

    compiled = torch.compile(vendor.outer, backend=backend)
    with gm.attach(vendor.double, backend=inner):
        assert torch.equal(compiled(X), X * 2 + 1)
        assert torch.equal(vendor.double(X), X * 2)
    assert inner.frame_count == 1


def test_attached_functions_nested_through_eager_parts() -> None:
    counter = CompileCounter()

    def level(x: torch.Tensor, n: int) -> torch.Tensor:
        x = x + 1
        if n:
            results: list[torch.Tensor] = []
            vendor.opaque(lambda: results.append(level(x, n - 1)))
            x = results[0]
        return x * 1

    with gm.attach(level, backend=counter):
        assert torch.equal(level(X, 12), X + 13)
        before = counter.frame_count
        assert torch.equal(level(X, 12), X + 13)
    assert counter.frame_count == before


@pytest.mark.slow
@pytest.mark.parametrize("place", ["enter", "frame", "leave"])
def test_an_interruption_leaves_dynamo_off_and_counts_level(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    from graphmend_bc.dynamo.patches import torch_compile

    interrupted = [False]

    def interrupt() -> None:
        if interrupted[0]:
            raise KeyboardInterrupt

    def calls_out(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        vendor.opaque(interrupt if place == "frame" else None)
        return x * 2

    enter = torch_compile.CompiledCall.__call__

    def enter_interrupted(self: torch_compile.CompiledCall, code: CodeType) -> Any:
        if place == "enter":
            interrupt()
        callback, leave = enter(self, code)  # type: ignore[misc]

        def leave_interrupted(error: BaseException | None) -> None:
            leave(error)
            if place == "leave":
                interrupt()

        return callback, leave_interrupted

    monkeypatch.setattr(torch_compile.CompiledCall, "__call__", enter_interrupted)

    def round_() -> None:
        interrupted[0] = True
        with pytest.raises(KeyboardInterrupt):
            calls_out(X)
        assert get_eval_frame_callback() is None
        interrupted[0] = False
        assert torch.equal(calls_out(X), (X + 1) * 2)

    def level() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in (calls_out.__code__, X, hooks)]

    with gm.attach(calls_out, backend="eager"):
        for _ in range(3):
            round_()
        before = level()
        for _ in range(50):
            round_()
        assert level() == before


def test_a_recursion_too_deep_through_eager_parts_is_an_error_as_in_eager() -> None:
    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        x = x + 1
        if n:
            results: list[torch.Tensor] = []
            vendor.opaque(lambda: results.append(down(x, n - 1)))
            return results[0]
        return x

    with pytest.raises(RecursionError):
        down(X, 5000)
    with gm.attach(down, backend="eager"):
        with pytest.raises(RecursionError):
            down(X, 5000)
        assert get_eval_frame_callback() is None
        assert torch.equal(down(X, 5), X + 6)


def test_a_debugger_traces_what_dynamo_leaves_to_python() -> None:
    lines: list[int] = []

    def trace(frame: object, event: str, argument: object) -> object:
        code = frame.f_code  # type: ignore[attr-defined]
        if code.co_name == "eagerly" and event == "line":
            lines.append(frame.f_lineno - code.co_firstlineno)  # type: ignore[attr-defined]
        return trace

    def eagerly() -> None:
        len("one")
        len("two")

    def calls_out(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        vendor.opaque(eagerly)
        return x * 2

    with gm.attach(calls_out, backend="eager"):
        former = sys.gettrace()
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            result = calls_out(X)
        finally:
            sys.settrace(former)
    assert torch.equal(result, (X + 1) * 2)
    assert lines == [1, 2]
