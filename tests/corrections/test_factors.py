"""Operators with a factor give eager Python's bits: stock computes them by others."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import agrees, check, load

GENERATOR = torch.Generator().manual_seed(0)
X, A, B = (torch.randn(64, generator=GENERATOR) for _ in range(3))
CALLS = [(X, A, B), (-X - 9, A, B), (X * 3, B, A)]

CALLS_WITH_FACTOR = (
    "(x * 1).addcmul_(a, b, value=0.3)",
    "(x * 1).addcdiv_(a, b, value=-0.3)",
    "torch.addcdiv(x, a, b, value=0.3)",
    "x.addcdiv(a, b, value=0.3)",
    "torch.addcmul(x, a, b, value=3)",
    "torch.Tensor.addcdiv_(x * 1, a, b, value=0.3)",
)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("call", CALLS_WITH_FACTOR)
def test_every_bit_is_eager_pythons(call: str, backend: str) -> None:
    source = f"""
    def f(x, a, b):
        y = {call}
        if x.sum() > 0:
            return y * 2
        return y, a
    """
    check(source, CALLS, mends="speculate@3", backend=backend)


@pytest.mark.parametrize("call", CALLS_WITH_FACTOR[:3])
def test_gradients(call: str) -> None:
    source = f"def f(x, a, b):\n    print('called')\n    return {call}\n"
    check(source, [(X, A, B), (-X, B, A)], mends="defer@2", grad=True)


@pytest.mark.parametrize("call", CALLS_WITH_FACTOR[:3])
def test_a_factor_that_changes(call: str) -> None:
    source = f"""
    def f(x, a, b, k):
        if x.sum() > 0:
            print('up')
        return {call.replace("0.3", "k").replace("3)", "k)")}
    """
    agrees(source, [(x, a, b, k) for x, a, b in CALLS for k in (0.3, -1.7, 3)], orders=4)


@pytest.mark.parametrize(
    "factor", ["x.sum()", "x[0] / 3", "torch.tensor(0.3)", "True", "x.max().item()"]
)
def test_other_factors_are_left_to_stock(factor: str) -> None:
    """Of a tensor stock's operators take the value without reading it: digits differ as its do."""
    source = f"""
    def f(x, a, b):
        print('called')
        return (x * 1).addcmul_(a, b, value={factor})
    """
    assert torch.equal(called(source, "eager", True), called(source, "eager", False))


def test_inductor_gets_stocks_operators() -> None:
    source = "def f(x, a, b):\n    return (x * 1).addcmul_(a, b, value=0.3)\n"
    assert torch.equal(called(source, "inductor", True), called(source, "inductor", False))


def called(source: str, backend: str, mends: bool) -> torch.Tensor:
    torch._dynamo.reset()
    with gm.enabled() if mends else nullcontext():
        result: torch.Tensor = torch.compile(load(source).f, backend=backend)(X, A, B)
    return result
