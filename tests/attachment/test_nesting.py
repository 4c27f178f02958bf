"""Attached functions inside each other, beside each other and inside compiled regions."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm
from tests.attachment import vendor

hooks = pytest.importorskip("graphmend_bc._frame_hooks")

X = torch.tensor([1.0, 2.0])


def reaches_hooks() -> bool:
    """Whether frames still go through our evaluator, wherever in the chain it is."""
    before = hooks.counters()["frames"]
    (lambda: None)()
    return bool(hooks.counters()["frames"] != before)


@pytest.fixture(autouse=True)
def nothing_left_attached() -> Iterator[None]:
    yield
    assert not hooks.installed()
    assert not reaches_hooks()
    assert get_eval_frame_callback() is None


@pytest.fixture
def graphs() -> CompileCounter:
    return CompileCounter()


def test_recursion(graphs: CompileCounter) -> None:
    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        return x if n == 0 else down(x + 1, n - 1)

    with gm.attach(down, backend=graphs):
        assert torch.equal(down(X, 3), X + 3)
    assert graphs.frame_count == 1


def test_recursion_through_an_eager_part(graphs: CompileCounter) -> None:
    @torch._dynamo.disable
    def eagerly(x: torch.Tensor, n: int) -> torch.Tensor:
        return down(x, n)

    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * 1 if n == 0 else eagerly(x + 1, n - 1) + 1

    with gm.attach(down, backend=graphs):
        assert torch.equal(down(X, 3), X + 6)
        before = graphs.frame_count
        assert torch.equal(down(X, 3), X + 6)
    assert graphs.frame_count == before > 1


def test_an_attached_function_inside_another_is_part_of_it(graphs: CompileCounter) -> None:
    inner = CompileCounter()
    with (
        gm.attach(vendor.outer, backend=graphs),
        gm.attach(vendor.double, backend=inner),
    ):
        assert torch.equal(vendor.outer(X), X * 2 + 1)
        assert (graphs.frame_count, inner.frame_count) == (1, 0)
        vendor.double(X)
    assert (graphs.frame_count, inner.frame_count) == (1, 1)


def test_inside_a_compiled_function_it_is_part_of_that(graphs: CompileCounter) -> None:
    inner = CompileCounter()
    compiled = torch.compile(vendor.outer, backend=graphs)
    with gm.attach(vendor.double, backend=inner):
        assert torch.equal(compiled(X), X * 2 + 1)
    assert (graphs.frame_count, inner.frame_count) == (1, 0)


def test_the_newest_attachment_applies(graphs: CompileCounter) -> None:
    newer = CompileCounter()
    first = gm.attach(vendor.double, backend=graphs)
    second = gm.attach(vendor.double, backend=newer)
    vendor.double(X)
    assert (graphs.frame_count, newer.frame_count) == (0, 1)
    second.remove()
    second.remove()
    vendor.double(torch.ones(3, dtype=torch.float64))
    first.remove()
    vendor.double(torch.ones(4, dtype=torch.int32))
    assert (graphs.frame_count, newer.frame_count) == (1, 1)


def test_the_older_attachment_can_go_first(graphs: CompileCounter) -> None:
    older = gm.attach(vendor.double, backend=CompileCounter())
    with gm.attach(vendor.double, backend=graphs):
        older.remove()
        vendor.double(X)
    assert graphs.frame_count == 1


def test_removal_from_inside_the_attached_function(graphs: CompileCounter) -> None:
    def leaves(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        vendor.opaque(handle.remove)
        return x + 1

    handle = gm.attach(leaves, backend=graphs)
    assert torch.equal(leaves(X), X + 2)
    assert not hooks.installed()


def test_stances_apply(graphs: CompileCounter) -> None:
    with gm.attach(vendor.double, backend=graphs):
        with torch.compiler.set_stance("force_eager"):
            vendor.double(X)
        assert graphs.frame_count == 0
        vendor.double(X)
    assert graphs.frame_count == 1


def test_tracing_by_fx_sees_the_plain_function(graphs: CompileCounter) -> None:
    with gm.attach(vendor.double, backend=graphs):
        traced = torch.fx.symbolic_trace(vendor.double)
    assert torch.equal(traced(X), X * 2)
    assert graphs.frame_count == 0


def test_two_threads(graphs: CompileCounter) -> None:
    meet = threading.Barrier(2, timeout=30)
    results: list[torch.Tensor] = []

    def in_step(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        vendor.opaque(meet.wait)  # both threads are between graphs now
        return x * 2

    def work(start: float) -> None:
        for _ in range(5):
            results.append(in_step(X + start))

    with gm.attach(in_step, backend=graphs):
        threads = [threading.Thread(target=work, args=(start,)) for start in (0.0, 10.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(result[0].item() for result in results) == [4.0] * 5 + [24.0] * 5


@pytest.mark.slow
def test_a_thousand_rounds_leave_reference_counts_level() -> None:
    function = vendor.double
    things = [function, function.__code__, hooks, X]

    def round_() -> None:
        with gm.attach(function, backend="eager"):
            function(X)

    def level() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    for _ in range(3):
        round_()
    before = level()
    for _ in range(1000):
        round_()
    assert level() == before


@pytest.mark.slow
def test_nothing_of_a_call_is_kept(graphs: CompileCounter) -> None:
    class Token:
        pass

    def takes(x: torch.Tensor, token: Token) -> torch.Tensor:
        return x + 1

    token = Token()
    gone = weakref.ref(token)
    with gm.attach(takes, backend=graphs):
        takes(X, token)
        torch._dynamo.reset()
        del token
        gc.collect()
        assert gone() is None


def test_equal_code_objects_are_told_apart(graphs: CompileCounter) -> None:
    def copy_of(function: Any) -> Any:
        return type(function)(function.__code__.replace(), function.__globals__)

    one, other = copy_of(vendor.double), copy_of(vendor.double)
    assert one.__code__ == other.__code__
    with gm.attach(one, backend=graphs):
        other(X)
        assert graphs.frame_count == 0
        one(X)
    assert graphs.frame_count == 1


def test_what_a_frame_sent_back_by_its_graph_calls_is_not_compiled(graphs: CompileCounter) -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        if torch.isnan(x).any():
            raise ValueError(f"not a number in {tuple(x.shape)}")
        return x

    def calls(x: torch.Tensor) -> torch.Tensor:
        return refuses(x) + 1

    gm.enable()
    with gm.attach(refuses, backend=graphs), gm.attach(calls, backend=graphs):
        assert torch.equal(calls(X), X * 2 + 1)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"not a number in \(2,\)"):
                calls(X * float("nan"))
            assert torch.equal(calls(X), X * 2 + 1)
    assert graphs.frame_count == 1
    assert [mend.strategy for mend in gm.report().mends] == ["speculate"]
    assert gm.report().declines == []
