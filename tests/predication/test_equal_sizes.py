"""`torch.equal` of tensors whose sizes may change from call to call."""

from __future__ import annotations

import pytest
import torch
from torch import ones

from tests.oracle import check

SAME = """
def f(x, y):
    if torch.equal(x + 1, y * 2):
        return x * 2
    return x - 1
"""

CALLS = [
    (ones(3), ones(3)),
    (ones(4), ones(4)),
    (ones(5) * 2, ones(5) * 1.5),
    (torch.zeros(5), ones(5)),
    (ones(6), torch.full((6,), torch.nan)),
    (ones(0), ones(0)),
    (ones(7), ones(9)),
    (ones(9), ones(4)),
]


def test_one_graph_is_for_all_sizes() -> None:
    check(SAME, CALLS[:5], mends="capture@2 where@2", dynamic=True, fullgraph=True)


@pytest.mark.slow
@pytest.mark.parametrize("dynamic", [None, True])
def test_other_sizes_are_not_equal(dynamic: bool | None) -> None:
    outcome = check(SAME, CALLS, None, dynamic=dynamic, fullgraph=True)
    assert "where@2" in outcome.mends


@pytest.mark.slow
def test_a_size_that_is_the_same_by_chance_does_not_become_a_constant() -> None:
    source = """
kept, held = torch.ones(4), []

def change(number):
    held[:] = [torch.ones((4, 5, 4, 6)[number % 4])]
    torch._dynamo.mark_dynamic(held[0], 0)

def f(x):
    return x + (1 if torch.equal(held[0] + 0 * torch.rand(()), kept * 1) else 2)
"""
    check(source, [ones(1)] * 4, mends=None, declines=None, breaks=None)


@pytest.mark.slow
def test_a_size_that_the_graph_finds_is_declined() -> None:
    source = """
def f(x, y):
    found = x[x > 0] * 1
    return x + (1 if torch.equal(found, y * 1) else 2)
"""
    outcome = check(source, [(ones(3), ones(3)), (-ones(3), ones(3))], None, None, None)
    assert "speculate" not in outcome.mends
