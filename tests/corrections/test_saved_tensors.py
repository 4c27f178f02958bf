"""What autograd functions save, in mended graphs that a backend runs as they are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.corrections.saved_tensors import apply_function
from tests.oracle import check, load

SOURCE = """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        w = 1
        if x.sum() > 100:
            w = [x.sort()[0]][0]
        {save}
        return x * x * w

    @staticmethod
    def backward(ctx, g):
        (x,) = {load}
        return 2 * g * x

def f(x):
    y = x * 1
    return Square.apply(y), y
"""
SAVED = {"save": "ctx.save_for_backward(x)", "load": "ctx.saved_tensors"}
KEPT = {"save": "ctx.x = x", "load": "(ctx.x,)"}


@pytest.fixture
def mending() -> Iterator[None]:
    with gm.enabled(cache=False):
        yield
        assert gm.report().mends
    torch._dynamo.reset()


def gradient(f: Callable[..., Any], between: Callable[..., object], around: Any) -> object:
    x = torch.arange(1.0, 4).requires_grad_()
    with around():
        z, y = f(x)
    try:
        between(z, y, x)
        z.sum().backward()
    except RuntimeError as error:
        return str(error)
    return None if x.grad is None else x.grad.tolist()


def written(z: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> None:
    with torch.no_grad():
        y.mul_(10)


def written_data(z: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> None:
    y.data.mul_(10)


def used_up(z: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> None:
    z.sum().backward()


def retained(z: torch.Tensor, y: torch.Tensor, x: torch.Tensor) -> None:
    z.sum().backward(retain_graph=True)


def hooked() -> Any:
    return torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda t: t * 2)


@pytest.mark.parametrize("words", [SAVED, KEPT])
@pytest.mark.parametrize("between", [list, written, written_data, retained, used_up])
@pytest.mark.parametrize("around", [contextlib.nullcontext, hooked])
def test_what_happens_between_the_passes(
    mending: None, words: dict[str, str], between: Callable[..., object], around: Any
) -> None:
    f = load(SOURCE.format(**words).lstrip("\n")).f
    compiled = torch.compile(f, backend="eager")
    between = (lambda z, y, x: None) if between is list else between
    for _ in range(2):
        assert gradient(compiled, between, around) == gradient(f, between, around)


def test_a_second_derivative_is_no_silent_zero(mending: None) -> None:
    """Stock's operator has none, and leaves it out of the sum."""
    f = load(SOURCE.format(**SAVED).lstrip("\n")).f
    compiled = torch.compile(f, backend="eager")
    x = torch.arange(1.0, 4).requires_grad_()
    (first,) = torch.autograd.grad((compiled(x)[0] + x**3).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(first.sum(), x)


@pytest.mark.parametrize(
    "mark", ["ctx.mark_non_differentiable(r)", "ctx.set_materialize_grads(False)", "x.add_(1)\nctx.mark_dirty(x)"]
)  # fmt: skip
def test_marks(mark: str) -> None:
    save = f"r = x * x\nctx.save_for_backward(r)\n{mark}".replace("\n", "\n        ")
    source = SOURCE.format(save=save, load="ctx.saved_tensors").replace(
        "return x * x * w", "return x, r * w"
    )
    source = source.replace("backward(ctx, g)", "backward(ctx, h, g)")
    source = source.replace("return 2 * g * x", "return g * x + (0 if h is None else h)")
    source = source.replace("return Square.apply(y), y", "return Square.apply(y)")
    calls = [torch.ones(3, requires_grad=True), torch.full((3,), 50.0, requires_grad=True)]
    check(source.lstrip("\n"), calls, None, None, None, grad=True)


def test_a_transform_around_the_operator() -> None:
    """It asks for another form of autograd functions, which stock's operator has."""
    forward = torch.fx.symbolic_trace(lambda x: ((x * x,), (x,)))
    backward = torch.fx.symbolic_trace(lambda g, x: (2 * g * x,))
    marks = {"non_differentiable_idx": [], "saved_for_backward_idx": [0]}

    def total(x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = apply_function(forward, backward, x, **marks)[0].sum()
        return found

    x = torch.arange(3.0)
    assert torch.equal(torch.func.grad(total)(x), 2 * x)
