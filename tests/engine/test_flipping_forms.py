"""Forms whose conditions flip: what their lives cost, in counts, and that they are eager Python's."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from tests.oracle import check
from tests.settling import live

Calls = list[tuple[Any, ...]]

LAST_ROUND = """
steps = torch.tensor([30, 20, 10, 0])

def f(x):
    for t in steps:
        x = x * 0.9
        if t > 0:
            x = x + torch.randn(3)
    return x
"""
"""A sampler: no noise is added in the last round."""

LAYER_DROP = """
layers = [torch.nn.Linear(3, 3) for _ in range(6)]

def f(x):
    for layer in layers:
        if torch.rand([]) < 0.3:
            continue
        x = x + layer(x).relu()
    return x
"""

MANY_KINDS = """
def f(x):
    if x[0] > 0:
        x, rows = x * 2, [1]
    else:
        x, rows = x - 1, [2, 3]
    name = "up" if x[1] > 0 else None
    if x[2] > 0:
        pair = x, 1
    else:
        pair = 2, x.sum()
    return x, rows, name, pair
"""

THREE_FUNCTIONS = """
def f(x):
    a = torch.sin if x[0] > 0 else torch.cos
    b = torch.exp if x[1] > 0 else torch.neg
    c = torch.abs if x[2] > 0 else torch.tanh
    return c(b(a(x)))
"""

EMPTY_OR_NOT = """
def f(boxes, scores):
    kept = boxes[scores > 0.5]
    if kept.numel() == 0:
        return boxes.new_zeros((0, 4)), scores
    return kept[(kept[:, 2] - kept[:, 0]).argsort()], scores
"""

CURSOR = """
times, wanted = torch.linspace(0, 1, 6), torch.linspace(0, 1, 4)

def f(x):
    j, rows = 1, [x]
    for t0, t1 in zip(times[:-1], times[1:]):
        y = x + (t1 - t0) * torch.tanh(x)
        while j < len(wanted) and t1 >= wanted[j]:
            rows.append(x + (y - x) * (wanted[j] - t0))
            j += 1
        x = y
    return torch.stack(rows)
"""
"""A solver: at which steps results are asked for follows from tensors."""


def vectors(count: int) -> Calls:
    drawn = torch.Generator().manual_seed(1)
    return [(torch.randn(3, generator=drawn),) for _ in range(count)]


def detections(count: int) -> Calls:
    drawn, chosen = torch.Generator().manual_seed(1), random.Random(1)
    return [
        (torch.rand(5, 4, generator=drawn), torch.full((5,), chosen.choice((0.1, 0.9))))
        for _ in range(count)
    ]


@pytest.mark.parametrize("source", [LAST_ROUND, CURSOR])
def test_each_round_is_assumed_to_go_as_in_the_first_call(source: str) -> None:
    torch.manual_seed(0)
    stock, mended = (live(source, vectors(20), 5, mends=m, same=False) for m in (False, True))
    assert (mended.total.compilations, mended.total.failed) == (1, 0)
    assert mended.rest.launches <= stock.rest.launches or not stock.rest.launches


@pytest.mark.parametrize(
    ("source", "make", "more"),
    [
        (LAYER_DROP, vectors, 2),
        (THREE_FUNCTIONS, vectors, 2),
        (MANY_KINDS, vectors, 0),
        (EMPTY_OR_NOT, detections, 0),
    ],
)
def test_few_checks_fail_and_little_is_compiled(source: str, make: Any, more: int) -> None:
    torch.manual_seed(0)
    stock, mended = (live(source, make(80), 20, mends=m, same=False) for m in (False, True))
    assert mended.total.compilations <= stock.total.compilations + more
    assert mended.total.failed <= 6
    assert mended.rest.compilations == mended.rest.failed == 0
    assert mended.rest.launches <= stock.rest.launches


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "make"),
    [
        (LAST_ROUND, vectors),
        (CURSOR, vectors),
        (LAYER_DROP, vectors),
        (MANY_KINDS, vectors),
        (THREE_FUNCTIONS, vectors),
        (EMPTY_OR_NOT, detections),
    ],
)
def test_they_are_what_eager_python_gives(source: str, make: Any) -> None:
    check(source, make(12), mends=None, declines=None, breaks=None)


def test_a_condition_that_is_given_up_is_so_after_the_break() -> None:
    """What goes on after it would speculate on the others anew."""
    calls = vectors(40)
    mended = live(THREE_FUNCTIONS, calls, 20, mends=True, same=False)
    lines = {d.site.lineno for d in mended.report.declines if d.reason == "speculation-missed"}
    assert lines == {3, 4, 5}
    assert mended.total.failed <= 6
