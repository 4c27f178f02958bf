"""What a frame was called with is released when the program lets go of it, without a collection."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.releases import since


class Holder:
    """Something of the program's."""

    def __init__(self) -> None:
        self.weight = torch.ones(3)
        self.calls = 0


def changes(holder: Holder, x: torch.Tensor) -> torch.Tensor:
    holder.calls += 1
    return x * holder.weight


def breaks(holder: Holder, x: torch.Tensor) -> torch.Tensor:
    x = x * holder.weight
    torch._dynamo.graph_break()
    return x + holder.calls


def branches(holder: Holder, x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * holder.weight
    return x + 1


def speculates(holder: Holder, x: torch.Tensor) -> object:
    if x.sum() > 0:
        return [x * holder.weight]
    return [x, holder.weight + 1]


def shows(holder: Holder, x: torch.Tensor) -> torch.Tensor:
    x = x * holder.weight
    print("largest", x.max())
    return x


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    torch._dynamo.reset()
    gc.collect()
    gc.disable()
    try:
        with torch._dynamo.config.patch(run_gc_after_compile=False):
            yield
    finally:
        gc.enable()


def kept(program: Callable[..., Any], *, mends: bool) -> list[bool]:
    """Whether an object that was given to a compiled function lives on, and its tensor."""
    torch._dynamo.reset()
    with gm.enabled() if mends else contextlib.nullcontext():
        holder = Holder()
        compiled = torch.compile(program, backend="eager")
        for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
            compiled(holder, x)
        known = weakref.ref(holder), weakref.ref(holder.weight)
        del holder
        return [ref() is not None for ref in known]


@pytest.mark.slow
@pytest.mark.parametrize("program", [breaks, shows])
def test_object(program: Callable[..., Any]) -> None:
    assert kept(program, mends=True) == [False, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(
            changes,
            marks=pytest.mark.skipif(
                not since(2, 13), reason="2.11 leaves a cycle of what a trace has made."
            ),
        ),
        *(branches, speculates),
    ],
)
def test_what_stock_keeps_too(program: Callable[..., Any]) -> None:
    stock = kept(program, mends=False)
    assert sum(kept(program, mends=True)) <= sum(stock)


@pytest.mark.slow
@pytest.mark.parametrize("mends", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.Adadelta, torch.optim.AdamW, torch.optim.Adagrad])
def test_state_of_an_optimizer(kind: Callable[..., Any], mends: bool) -> None:
    with gm.enabled() if mends else contextlib.nullcontext():
        model = torch.nn.Linear(3, 2, bias=False)
        optimizer: Any = kind(model.parameters())

        def step() -> None:
            optimizer.step()

        compiled = torch.compile(step, backend="eager")
        model(torch.ones(3)).sum().backward()
        compiled()
        state = [weakref.ref(value) for value in optimizer.state[model.weight].values()]
        known = [*state, weakref.ref(optimizer)]
        optimizer = None
        assert len(known) >= 3
        assert [ref() is None for ref in known] == [True] * len(known)
