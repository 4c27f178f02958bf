"""Buffers that a graph reads and then writes: AOTAutograd may compute gradients from what is written."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP = torch.tensor([1.0, 2.0, 3.0])
CALLS = [x.clone().requires_grad_() for x in (UP, -UP, UP, -UP)]

PROGRAM = """
weight, held = nn.Parameter(torch.ones(3)), torch.full((3,), 2.0)
norm = nn.BatchNorm1d(1)

def f(x):
    q = {read}
    x = x * 2 if x.sum() > 0 else x + 1
    with torch.no_grad(): {write}
    return {use}
"""


@pytest.mark.parametrize(
    ("read", "write", "use"),
    [
        ("held.exp()", "held.mul_(0.5)", "x * weight * q"),
        ("held.clone()", "held[1] = 7.0", "x * q.sin() * weight"),
        ("held[torch.tensor([0, 2, 1])]", "held[0].add_(3)", "(x * weight - q).square()"),
        (
            "held.view(3, 1).exp()[:, 0].detach()",
            "torch._foreach_mul_([held], 0.5)",
            "x * weight * q",
        ),
        ("held > 1", "torch.add(held, -1.5, out=held)", "torch.where(q, x * weight, x)"),
        ("held.exp()", "held -= 0.5", "x * weight * (q + 1)"),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_gradient_needs_what_was_there_before(
    backend: str, read: str, write: str, use: str
) -> None:
    """A backend that runs the graph as it is keeps it, as eager Python does."""
    is_kept = backend == "eager"
    check(
        PROGRAM.format(read=read, write=write, use=use).replace(
            "def f(x):", "def f(x, held=held):"
        ),
        [(x,) for x in CALLS],
        mends=None if is_kept else "",
        declines="" if is_kept else "gradient-of-written@6",
        breaks=0 if is_kept else None,
        grad=True,
        backend=backend,
    )


@pytest.mark.parametrize(
    ("read", "write", "use"),
    [
        ("held.exp()", "held.mul_(0.5)", "x * weight + q - held"),
        ("held.exp()", "held.mul_(0.5)", "torch.cat([x * weight, q])"),
        ("held.view(3)", "held.mul_(0.5)", "x * weight * q.exp()"),
        ("1", "held.mul_(0.5)", "x * weight * held.exp()"),
        ("norm(x.view(3, 1))", "held.mul_(0.5)", "norm(q * weight.view(3, 1))"),
        ("held.exp()", "q.mul_(0.5)", "x * weight * q"),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_no_gradient_needs_it(backend: str, read: str, write: str, use: str) -> None:
    source = PROGRAM.format(read=read, write=write, use=use)
    check(source, CALLS, mends="where@6", grad=True, backend=backend)


def test_where_no_gradient_follows() -> None:
    source = PROGRAM.format(read="held.exp()", write="held.mul_(0.5)", use="x * weight * q")
    source = source.replace("def f", "@torch.no_grad()\ndef f")
    check(source, CALLS, mends="where@7", backend="aot_eager")
