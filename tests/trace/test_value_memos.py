"""Tensors whose memory is written to without their version telling it are asked again."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees


@pytest.mark.parametrize("write", ["n.data.add_(1)", "n.data[0] = 5", "k[0] += 1"])
def test_numbers(write: str) -> None:
    shared = torch.ones(1)
    # No view of it: its version is its own.
    other = torch.empty(0).set_(shared.untyped_storage(), 0, (1,))
    agrees(
        f"""
        def f(x, n, k):
            a = x * n.item()
            {write}
            return a, x * n.item()
        """,
        [(torch.ones(2), shared, other), (torch.ones(2), torch.ones(1), torch.ones(1))],
    )


@pytest.mark.parametrize(
    "ask", ["x[m].sum()", "m.nonzero()", "x.unique().sum()", "torch.masked_select(x, m).sum()"]
)
def test_sizes(ask: str) -> None:
    x, mask = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, True, False])
    agrees(
        f"""
        def f(x, m):
            x = x * 1
            a = {ask}
            m.data[0] = False
            x.data[0] = 2.0
            return a, {ask}
        """,
        [(x, mask), (x + 1, ~mask), (x, mask)],
    )
