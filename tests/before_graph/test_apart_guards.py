"""What is computed before the graph reads an input that is, in some calls, one that was written before."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.oracle import agrees, check

Call = tuple[torch.Tensor, torch.Tensor]


def apart() -> Call:
    return torch.ones(3), torch.ones(3)


def large() -> Call:
    return torch.ones(3), torch.full((3,), 2.0)


def same() -> Call:
    tensor = torch.ones(3)
    return tensor, tensor


def view() -> Call:
    tensor = torch.ones(3)
    return tensor, tensor[:]


def overlapping() -> Call:
    tensor = torch.ones(4)
    return tensor[:3], tensor[1:]


def neighbours() -> Call:
    tensor = torch.ones(6)
    return tensor[:3], tensor[3:]


ORDERS = [
    (apart, apart, view, view, apart),
    (apart, same, overlapping, apart),
    (view, apart, overlapping),
    (overlapping, view, apart, neighbours),
    (neighbours, neighbours, apart, view),
]


@pytest.mark.slow
@pytest.mark.parametrize("makes", ORDERS)
@pytest.mark.parametrize(
    "body",
    [
        "for _ in range(int(a[0])):\n        x = x * 2\n    return x",
        "return [x * n for n in a.tolist()]",
        "return x.roll(int(a[0]), 0), len(range(int(a[2])))",
        "y = a + 0\n    for _ in range(int(y.sum())):\n        x = x + 1\n    return x, y",
        "return torch.from_numpy(pick(a)) * x",
    ],
)
def test_a_later_call_shares_what_is_written(
    body: str, makes: tuple[Callable[[], Call], ...]
) -> None:
    source = f"""
import numpy

def pick(a):
    return numpy.random.rand(1) * a.numpy().sum()

def f(x, a):
    x.add_(1)
    {body}
"""
    agrees(source, [make() for make in makes], orders=2)


def test_it_is_computed_before_the_graph_where_the_inputs_are_apart() -> None:
    source = """
def f(x, a):
    x.add_(1)
    for _ in range(int(a[0])):
        x = x * 2
    return x
"""
    check(source, [apart(), apart(), large()], mends="hoist@3", orders=1)


def test_a_condition_that_flips() -> None:
    source = """
def f(x, a):
    x.add_(1)
    kept = [1] if a.sum() > 4 else [2, 3]
    return x * len(kept), kept
"""
    makes = [apart, large] * 6 + [view, apart, same, large, view, overlapping]
    agrees(source, [make() for make in makes], orders=1)
