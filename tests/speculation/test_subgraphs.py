"""Branches in the forward pass of autograd functions and in checkpointed blocks."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

PROGRAM = """
from torch.utils.checkpoint import checkpoint

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        {body}
        ctx.save_for_backward(x, r)
        return r * 2

    @staticmethod
    def backward(ctx, g):
        {back}
        x, r = ctx.saved_tensors
        return None, g * x * r

def h(x, w):
    {block}
    return Scaled.apply(x, w)

def f(x, w):
    {call}
"""
SITE = 6
ONES = torch.ones(3)
X = [ONES, ONES * 2, -ONES, ONES * 3, ONES, ONES * 4]
CALLS = [(x, torch.full((3,), 2.0, requires_grad=True)) for x in X]
SUM = "r = x * w\nif r.sum() > 0: r = [r.cumsum(0)][0]\nelse: r = [r.sort()[0]][0]"


def program(body: str, call: str = "return h(x, w) + 1", block: str = "", back: str = "") -> str:
    return PROGRAM.format(
        body=body.replace("\n", "\n        "),
        call=call.replace("\n", "\n    "),
        block=block or "pass",
        back=back or "pass",
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("body", "line"),
    [
        (SUM, SITE + 1),
        ("r = x * w\nif not torch.any(r > 7): return r * 3\nr = r.exp()", SITE + 1),
        ("r = x * w\nif r.max() < 0: raise ValueError('negative')", SITE + 1),
        ("r = x * w\nif r.sum() > 0 and x.min() > 0: r = [r.exp()][0]", SITE + 1),
    ],
)
def test_a_branch_in_a_function(body: str, line: int, backend: str) -> None:
    body = body.replace("return r * 3", "ctx.save_for_backward(x, r); return r * 3")
    outcome = check(program(body), CALLS, None, grad=True, backend=backend)
    assert f"speculate@{line}" in outcome.mends


def test_a_function_that_is_called_twice() -> None:
    call = "y = h(x, w)\nreturn h(-x, w) + y"
    check(program(SUM, call), CALLS, f"speculate@{SITE + 1}", grad=True)


def test_branches_inside_and_outside() -> None:
    call = "y = h(x, w)\nif y.sum() > 5: return y, 1\nreturn y"
    check(program(SUM, call), CALLS, f"speculate@{SITE + 1} speculate@24", grad=True)


def test_a_function_in_a_checkpoint() -> None:
    call = "return checkpoint(h, x, w, use_reentrant=False) + 1"
    block = "if x.sum() > 1: x = [x.exp()][0]"
    wanted = f"speculate@{SITE + 1} speculate@19"
    check(program(SUM, call, block), CALLS, wanted, grad=True)


def test_a_loop_of_checkpoints() -> None:
    call = "for _ in range(3):\n    x = checkpoint(h, x, w, use_reentrant=False)\nreturn x"
    body = "r = x * w\nif r.sum() < 0: r = [r / 4][0]"
    # Stock raises where a branch is met in a block that has no operator before it.
    block = "x = x + 0.5"
    check(program(body, call, block), CALLS, f"speculate@{SITE + 1}", grad=True)


def test_a_branch_that_cannot_leave() -> None:
    """An arm that selects is traced outside of the function, where its check would be."""
    call = "if x.sum() > 0: y = h(x, w)\nelse: y = x * w\nreturn y"
    check(program(SUM, call), CALLS, None, None, None, grad=True)


def test_the_backward_pass() -> None:
    back = "if g.sum() > 0: g = [g * 2][0]"
    outcome = check(program("r = x * w", back=back), CALLS, None, None, None, grad=True)
    assert outcome.breaks
    assert "inside-transform" in outcome.declines


def test_without_a_gradient() -> None:
    """Dynamo traces the function as any other then."""
    calls = [(x, w.detach()) for x, w in CALLS]
    check(program(SUM), calls, f"where@{SITE + 1}")


def test_a_checkpoint_with_a_context_of_the_users() -> None:
    call = (
        "import contextlib\n"
        "from functools import partial\n"
        "both = partial(lambda: (contextlib.nullcontext(), contextlib.nullcontext()))\n"
        "return checkpoint(h, x, w, use_reentrant=False, context_fn=both) + 1"
    )
    outcome = check(program(SUM, call, "x = x + 0.5"), CALLS, None, None, None, grad=True)
    assert outcome.breaks
