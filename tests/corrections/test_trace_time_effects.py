"""What Dynamo does for real while it traces must not be done for a way that is not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

import graphmend_bc as gm

X = torch.tensor([1.0, 2.0, 3.0])


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def _precisions(function: Callable[[Tensor], Tensor], *calls: Tensor) -> list[str]:
    """The precision after each call, which starts with the highest."""
    seen = []
    for x in calls:
        torch.set_float32_matmul_precision("highest")
        function(x)
        seen.append(torch.get_float32_matmul_precision())
    return seen


def _in_an_arm(x: Tensor) -> Tensor:
    x = x * 2
    if x.sum() > 0:
        torch.set_float32_matmul_precision("high")
    return x


def _after_a_speculation(x: Tensor) -> Tensor:
    name = "plain"
    if x.sum() > 0:
        name = "scaled"
    if name == "scaled":
        torch.backends.cuda.matmul.allow_tf32 = True
    return x * 2


@pytest.mark.parametrize("function", [_in_an_arm, _after_a_speculation])
@pytest.mark.parametrize("calls", [(-X, -X, X), (X, -X, X)])
def test_precision_of_products(
    function: Callable[[Tensor], Tensor], calls: tuple[Tensor, ...]
) -> None:
    expected = _precisions(function, *calls)
    torch._dynamo.reset()
    with gm.enabled():
        assert _precisions(torch.compile(function, backend="eager"), *calls) == expected


@pytest.mark.parametrize("up", [False, True])
def test_lazy_module(up: bool) -> None:
    lazy = nn.LazyLinear(3)

    def step(x: Tensor) -> Tensor:
        x = x * 2
        return lazy(x) if x.sum() > 0 else x

    with gm.enabled():
        compiled = torch.compile(step, backend="eager")
        compiled(-X)
        assert is_lazy(lazy.weight)
        if up:
            assert torch.equal(compiled(X), lazy(X * 2))
            assert not is_lazy(lazy.weight)
            assert torch.equal(compiled(-X), -X * 2)
