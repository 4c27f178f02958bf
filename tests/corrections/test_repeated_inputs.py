"""Autograd functions that are given one tensor twice."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.dynamo import facts
from tests.oracle import check

pytestmark = pytest.mark.skipif(not facts.REWIRES_GRADIENTS, reason="not on torch 2.11")

PROGRAM = """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, w):
        {body}

    @staticmethod
    def backward(ctx, *g):
        return g[-1] * 2, g[-1] * 3, g[-1] * ctx.saved_tensors[0]

def f(x, w):
    {before}
    print('applied')
    return Product.apply({given}, w.exp())
"""

X = torch.arange(3.0)


def calls(trains: bool = False) -> list[tuple[torch.Tensor, ...]]:
    weights = torch.ones(3, requires_grad=True)
    return [((X + shift).requires_grad_(trains), weights) for shift in range(3)]


def program(body: str, given: str = "x, x", before: str = "pass") -> str:
    return PROGRAM.format(body=body.replace("\n", "\n        "), given=given, before=before)


BODIES = [
    "ctx.save_for_backward(x)\nreturn x * y * w",
    "ctx.save_for_backward(w)\nreturn (x if x is y else x * 2) + w",
    "ctx.save_for_backward(w)\nreturn x * w + sum(ctx.needs_input_grad)",
    "ctx.save_for_backward(w)\nreturn x, y * w",
    "ctx.save_for_backward(w)\nreturn x.view(3) * y * w",
]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_tensor_without_a_gradient(body: str, backend: str) -> None:
    check(program(body), calls(), "defer@13", grad=True, backend=backend)


@pytest.mark.parametrize(
    ("given", "before"), [("x, x", "x = x * 2"), ("x.detach(), x.detach()", "pass")]
)
def test_a_tensor_of_the_function(given: str, before: str) -> None:
    check(program(BODIES[0], given, before), calls(), "defer@13", grad=True)


@pytest.mark.parametrize("body", BODIES)
def test_two_gradients_for_one_tensor_are_left_to_stock(body: str) -> None:
    outcome = check(program(body), calls(trains=True), None, None, None, grad=True)
    assert outcome.breaks


def test_a_tensor_that_the_function_changes_is_left_to_stock() -> None:
    body = "x.add_(1)\nctx.mark_dirty(x)\nctx.save_for_backward(w)\nreturn x, x * y * w"
    outcome = check(program(body), calls(), None, None, None, grad=True)
    assert outcome.breaks


def test_one_tensor_twice_or_two() -> None:
    """What is compiled for one tensor is not used for two."""
    source = program(BODIES[0], "x, y").replace("f(x, w)", "f(x, y, w)")
    weights = torch.ones(3, requires_grad=True)
    pairs = [(X, X, weights), (X, X + 1, weights), (X + 1, X + 1, weights), (X, X, weights)]
    check(source, pairs, "defer@13", grad=True)
