"""Comparisons of uniform numbers whose truth is known, asked with the nodes of graphs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from graphmend_bc.legality.fold import fold_truth


def compared(
    compare: Callable[..., Any], bound: Any, swapped: bool = False, draw: Any = torch.rand
) -> Node:
    graph = Graph()
    drawn = graph.call_function(draw, ([],))
    args = (bound, drawn) if swapped else (drawn, bound)
    return graph.call_function(compare, args)


@pytest.mark.parametrize("draw", [torch.rand, torch.rand_like])
@pytest.mark.parametrize(
    ("compare", "turned"),
    [
        (operator.lt, operator.gt),
        (operator.le, operator.ge),
        (operator.gt, operator.lt),
        (operator.ge, operator.le),
    ],
)
@pytest.mark.parametrize("bound", [-1, -0.5, 0, 0.0, 0.5, 1, 1.0, 1.5, 2])
def test_bounds(compare: Any, turned: Any, bound: float, draw: Any) -> None:
    """A number of [0, 1): one rounded to it may be 1."""
    outcomes = {bool(compare(number, bound)) for number in (0.0, 0.3, 0.7, 1.0)}
    expected = outcomes.pop() if len(outcomes) == 1 else None
    assert fold_truth(compared(compare, bound, draw=draw)) is expected
    assert fold_truth(compared(turned, bound, swapped=True, draw=draw)) is expected


@pytest.mark.parametrize(
    "node",
    [
        compared(operator.eq, 2),
        compared(operator.ne, 2),
        compared(operator.add, -1),
        compared(operator.lt, False),
        compared(operator.lt, True, swapped=True),
        compared(operator.lt, "0"),
        compared(operator.lt, float("nan")),
        compared(operator.lt, 0, draw=torch.randn),
        compared(operator.gt, 0, swapped=True, draw=torch.ones),
        Graph().placeholder("c"),
        Graph().call_function(operator.lt, (0, 1)),
        Graph().call_function(operator.lt, (torch.rand, 0)),
    ],
)
def test_what_is_not_known(node: Node) -> None:
    assert fold_truth(node) is None


def test_other_operands() -> None:
    graph = Graph()
    one, other = (graph.call_function(torch.rand, ([],)) for _ in range(2))
    assert fold_truth(graph.call_function(operator.lt, (one, other))) is None
    assert fold_truth(graph.call_function(torch.lt, (one,), {"other": -1})) is None
    assert fold_truth(graph.call_function(operator.lt, (one, -1, -1))) is None
    assert fold_truth(graph.call_method("lt", (one, -1))) is None
    method = graph.call_method("rand", (one,))
    assert fold_truth(graph.call_function(operator.lt, (method, -1))) is None
