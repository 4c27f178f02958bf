"""Gradients that the backward pass of an autograd function computes by `torch.autograd.grad`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check, load

PROGRAM = """
import torch

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a.sin() @ b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        c, d = a.detach().requires_grad_(), b.detach().requires_grad_()
        with torch.enable_grad():
            {body}
        return found

def f(a, b):
    {call}
"""
BODY = """
loss = (g * (c.sin() @ d)).sum()
found = torch.autograd.grad(loss, [c, d])
""".strip()
CALL = "return Product.apply(a, b).exp()"
SITE = 15


def program(body: str = BODY, call: str = CALL) -> str:
    body, call = body.replace("\n", "\n            "), call.replace("\n", "\n    ")
    return PROGRAM.format(body=body, call=call).lstrip("\n")


def pair(scale: float, *, leaf: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = torch.arange(9.0).view(3, 3) * scale, torch.eye(3) + scale
    return a.requires_grad_(leaf), b.requires_grad_(leaf)


CALLS = [pair(0.1), pair(0.3), pair(-0.2)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("call", [CALL, "return Product.apply(a * 2, b.mT.exp()) + a"])
def test_gradients_in_a_backward_pass(call: str, backend: str) -> None:
    check(program(call=call), CALLS, f"train@{SITE}", grad=True, backend=backend)


LOSS = "loss = (g * (c.sin() @ d)).sum()\n"
UNDETACHED = "loss = (g * (c.sin() @ b)).sum()\nfound = torch.autograd.grad(loss, [c])[0], None"


@pytest.mark.parametrize(
    ("body", "call"),
    [
        # What leads from `b` to the loss does not run.
        (UNDETACHED, "m = b * 3\nreturn Product.apply(a * 2, m) * m.exp()"),
        ("found = torch.autograd.grad(c.sin() @ d, [c, d], g)", CALL),
        ("loss = (g * (c.sin() @ b)).sum()\nfound = torch.autograd.grad(loss, [c, d], allow_unused=True)", CALL),
        ("loss = (c + d).sum()\nfound = torch.autograd.grad(loss, [c, d])", CALL),
        (LOSS + "x, y = torch.autograd.grad(loss, [c, d])\nfound = x.add_(1), y", CALL),
        (BODY, "return Product.apply(Product.apply(a, b), b * 2)"),
        (BODY, "a.register_hook(lambda g: g * 2)\n" + CALL),
        (BODY, "if a.sum() > 0: return Product.apply(a, b)\nreturn a @ b"),
        (BODY, "x = a.detach().requires_grad_()\nloss = Product.apply(x, b).sum()\nreturn torch.autograd.grad(loss, x)[0]"),
    ],
)  # fmt: skip
def test_what_is_exact(body: str, call: str) -> None:
    outcome = check(program(body, call), CALLS, None, None, None, grad=True)
    assert "train@" in outcome.mends
    assert not outcome.breaks


@pytest.mark.parametrize(
    "body",
    [
        "loss = (g * (a.sin() @ b)).sum()\nfound = torch.autograd.grad(loss, [a, b])",
        "d = b.contiguous()\n" + BODY,
        LOSS + "x, = torch.autograd.grad(loss, [c], retain_graph=True)\n"
        "found = x, torch.autograd.grad(loss, [d])[0]",
    ],
)
def test_what_is_left(body: str) -> None:
    outcome = check(program(body), CALLS, None, None, None, grad=True)
    assert outcome.breaks
    assert "backward-noticed" in outcome.declines


def test_a_pass_that_raises() -> None:
    body = "loss = (g * (c.sin() @ b)).sum()\nfound = torch.autograd.grad(loss, [c, d])"
    check(program(body), CALLS, None, None, None, grad=True)


@pytest.fixture
def mending() -> Iterator[None]:
    with gm.enabled(cache=False):
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hooks_that_see_what_is_saved(mending: None, backend: str) -> None:
    def seen_by(f: Any, *, hooked: bool) -> object:
        seen: list[object] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            seen.append(tensor.sum().item())
            return tensor

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor * 2)
        a, b = pair(0.1)
        with hooks if hooked else contextlib.nullcontext():
            f(a, b).sum().backward()
        return seen, a.grad, b.grad

    f = load(program()).f
    compiled = torch.compile(f, backend=backend)
    for hooked in (False, True, False, True):
        assert str(seen_by(compiled, hooked=hooked)) == str(seen_by(f, hooked=hooked))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_pass_that_is_made_twice(mending: None, backend: str) -> None:
    f = load(program()).f
    compiled = torch.compile(f, backend=backend)

    def twice(f: Any) -> object:
        a, b = pair(0.1)
        out = f(a, b).sum()
        out.backward(retain_graph=True)
        out.backward()
        return a.grad, b.grad

    assert str(twice(compiled)) == str(twice(f))
