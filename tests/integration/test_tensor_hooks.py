"""Hooks of tensors, which change or look at gradients in the backward pass."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.releases import since

X = torch.tensor([1.0, 2.0, 3.0])
PLAIN = [-X, X, -X]
LEAVES = [x.clone().requires_grad_() for x in PLAIN]

ONE_GRAPH = pytest.mark.skipif(
    not since(2, 13), reason="With torch 2.11 a mended graph breaks at hooks of what it makes."
)


@pytest.mark.parametrize("calls", [LEAVES, PLAIN], ids=["leaves", "plain"])
@pytest.mark.parametrize(
    "hook",
    [
        "x.register_hook(lambda g: g * 2)",
        "y.register_hook(lambda g: g * 2)",
        "y = y * 2; y.register_hook(lambda g: g * 2)",
        "x.register_post_accumulate_grad_hook(lambda t: t.grad.mul_(2))",
    ],
)
def test_in_an_arm(hook: str, calls: list[torch.Tensor]) -> None:
    """Where nothing requires a gradient, registering one raises in the calls that come by."""
    outcome = check(
        f"def f(x):\n    y = x * 3\n    if y.sum() > 0:\n        {hook}\n    return (x * y).sum()\n",
        calls,
        mends="speculate@3",
        declines=None,
        breaks=None,
        grad=True,
    )
    assert "where" not in outcome.mends
    assert "cond" not in outcome.mends


def test_in_an_arm_where_no_gradients_are_recorded() -> None:
    check(
        """
        import torch
        def f(x):
            y = x * 3
            with torch.no_grad():
                if x.sum() > 0:
                    y.register_hook(lambda g: g * 2)
                z = y * 2
            return (x * y).sum(), z
        """,
        LEAVES,
        mends="speculate@5",
        declines=None,
        breaks=None,
        grad=True,
    )


@ONE_GRAPH
@pytest.mark.parametrize("calls", [LEAVES, PLAIN], ids=["leaves", "plain"])
@pytest.mark.parametrize(
    ("arm", "mends"),
    [("x = x * 3", "speculate@3"), ("n = 2", "speculate@3"), ("print('up')", "where@3 defer@4")],
)
def test_of_what_a_branch_gives(arm: str, mends: str, calls: list[torch.Tensor]) -> None:
    check(
        f"""
        def f(x):
            x, n = x * 2, 1
            if x.sum() > 0:
                {arm}
            x.register_hook(lambda g: g * 2)
            return (x * n).sum()
        """,
        calls,
        mends,
        declines=None,
        grad=True,
    )


@ONE_GRAPH
@pytest.mark.parametrize("same", ["x", "x.contiguous()", "x.view(3)"])
def test_of_an_input_after_a_speculation(same: str) -> None:
    check(
        f"""
        def f(x):
            n = 1
            if x.sum() > 0:
                n = 2
            y = {same}
            y.register_hook(lambda g: g * 2)
            return (x * n).sum() + y.sum()
        """,
        LEAVES,
        mends="speculate@3" if same == "x" else "",
        declines=None,
        breaks=None,
        grad=True,
    )
