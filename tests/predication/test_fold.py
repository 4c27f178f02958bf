"""Stochastic layer skips with a rate of zero: the branch goes, the draw stays."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.fx import Graph

from graphmend_bc.legality.fold import fold_truth
from tests.oracle import check

UP = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_layer_skip_at_rate_zero(backend: str) -> None:
    check(
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
                self.layerdrop = 0.0

            def forward(self, x):
                states = ()
                for layer in self.layers:
                    states += (x,)
                    to_drop = False
                    if self.training:
                        dropout_probability = torch.rand([])
                        if dropout_probability < self.layerdrop:
                            to_drop = True
                    if to_drop:
                        output = (None, None)
                    else:
                        x = layer(x)
                return x, states

        model = Model()

        def f(x):
            return model(x), torch.rand(2)
        """,
        [UP, UP * 2],
        mends="fold@14",
        backend=backend,
        grad=True,
    )


def test_layer_skip_that_often_happens_is_drawn_ahead() -> None:
    outcome = check(
        """
        def f(x):
            for _ in range(2):
                if torch.rand([]) < 0.5:
                    continue
                x = x + torch.rand(3)
            return x
        """,
        [UP] * 8,
        mends="hoist@3",
    )
    assert outcome.graphs <= 4


@pytest.mark.parametrize(
    ("compare", "bound", "truth"),
    [
        (operator.lt, 0.0, False),
        (operator.lt, -1, False),
        (operator.lt, 1.5, True),
        (operator.lt, 1.0, None),
        (operator.lt, 0.1, None),
        (operator.le, 0.0, None),
        (operator.le, 1.0, True),
        (operator.ge, 0.0, True),
        (operator.ge, 0.1, None),
        (operator.gt, 0.0, None),
        (operator.gt, 1.0, False),
        (operator.eq, 2.0, None),
        (operator.lt, True, None),
        (operator.lt, float("nan"), None),
    ],
)
def test_constant_truth(compare: object, bound: float, truth: bool | None) -> None:
    graph = Graph()
    draw = graph.call_function(torch.rand, ([],))
    assert fold_truth(graph.call_function(compare, (draw, bound))) is truth  # type: ignore[arg-type]
    swapped = {operator.lt: operator.gt, operator.gt: operator.lt, operator.le: operator.ge}
    mirrored = swapped.get(compare, operator.le if compare is operator.ge else compare)  # type: ignore[call-overload]
    assert fold_truth(graph.call_function(mirrored, (bound, draw))) is truth  # type: ignore[arg-type]


def test_other_sources_are_not_decided() -> None:
    graph = Graph()
    for target in (torch.randn, torch.zeros):
        draw = graph.call_function(target, ([],))
        assert fold_truth(graph.call_function(operator.lt, (draw, 0.0))) is None
    assert fold_truth(graph.placeholder("x")) is None
