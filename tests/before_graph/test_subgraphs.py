"""Truth values inside `forward` of an autograd function are computed before the frame's graph."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

PROGRAM = """
class Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, w, ask):
        a, b = x.div(w), y.div(w)
        {body}
        ctx.save_for_backward(r)
        return r * 2

    @staticmethod
    def backward(ctx, g):
        {back}
        return None, None, g * ctx.saved_tensors[0], None

def ask(a, b):
    if torch.equal(a, b):
        return a.exp()
    return (a - b).exp()

def f(x, y, w):
    {before}
    return Distance.apply(x, y, w.exp(), ask)
"""
LINE = 15
X = torch.tensor([1.0, 2.0, 3.0])
Y = torch.tensor([1.0, 2.0, 4.0])
NAN = torch.tensor([1.0, float("nan"), 3.0])
CALLS = [(X, X.clone()), (X, Y), (Y, Y.clone()), (NAN, NAN.clone()), (Y, X)]


def calls() -> list[tuple[torch.Tensor, ...]]:
    return [(*pair, torch.ones(3, requires_grad=True)) for pair in CALLS]


def program(body: str = "r = ask(a, b)", back: str = "pass", before: str = "pass") -> str:
    return PROGRAM.format(body=body.replace("\n", "\n        "), back=back, before=before)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_equal_of_what_the_function_is_given(backend: str) -> None:
    check(program(), calls(), f"hoist@{LINE}", grad=True, backend=backend)


def test_what_is_computed_before_the_function() -> None:
    check(program(before="x = x * w.detach()"), calls(), f"hoist@{LINE}", grad=True)
    check(program("r = ask(a.cumsum(0), b)"), calls(), f"hoist@{LINE}", grad=True)
    check(program("r = ask(x, y)"), calls(), f"hoist@{LINE}", grad=True)
    check(program("r = ask(x, b * w)"), calls(), f"hoist@{LINE}", grad=True)


def test_one_value_asked_for_twice() -> None:
    check(program("r = ask(a, b) + ask(a, b)"), calls(), f"hoist@{LINE}", grad=True)


@pytest.mark.parametrize(
    ("body", "before", "declines"),
    [
        ("a.add_(1)\nr = ask(a, b)", "pass", "hoist-not-input"),
        ("r = ask(a, b)", "x = x + 1; x.mul_(2)", "hoist-not-input"),
        ("r = ask(torch.mm(a[None], b[:, None]), b[:1, None])", "pass", "hoist-too-dear"),
        ("n = int(a.sum())\nr = a * n + b", "pass", "inside-function"),
        ("n = a.sum().item()\nr = a * n + b", "pass", "inside-function"),
        ("r = a[a > 2].sum() * a + b", "pass", "inside-function"),
    ],
)
def test_what_cannot_be_computed_before(body: str, before: str, declines: str) -> None:
    outcome = check(program(body, before=before), calls(), None, None, None, grad=True)
    assert outcome.breaks
    assert declines in outcome.declines


def test_drawn_values() -> None:
    body = "r = ask(a + torch.rand(3), b)"
    outcome = check(program(body), calls(), None, None, None, grad=True)
    assert outcome.breaks
    assert "hoist-not-input" in outcome.declines


def test_the_backward_pass() -> None:
    back = "g = g * 2 if torch.equal(g, ctx.saved_tensors[0]) else g"
    outcome = check(program("r = a * b", back), calls(), None, None, None, grad=True)
    assert outcome.breaks
    assert "inside-transform" in outcome.declines


def test_a_function_in_a_checkpoint() -> None:
    source = program().replace("def f(", "def g(") + (
        "from torch.utils.checkpoint import checkpoint\n"
        "def f(x, y, w):\n    return checkpoint(g, x, y, w, use_reentrant=False)\n"
    )
    check(source, calls(), f"hoist@{LINE}", grad=True)


def test_a_function_in_a_function() -> None:
    source = program().replace("def f(", "def g(") + (
        "class Outer(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, y, w):\n"
        "        ctx.save_for_backward(x)\n"
        "        return g(x * 2, y * 2, w)\n"
        "    @staticmethod\n"
        "    def backward(ctx, grad):\n"
        "        return None, None, grad * ctx.saved_tensors[0]\n"
        "def f(x, y, w):\n    return Outer.apply(x, y, w)\n"
    )
    check(source, calls(), f"hoist@{LINE}", grad=True)
