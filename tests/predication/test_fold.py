"""Conditions that are the same in every call: of no chance, or of constants."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.fx import Graph

import graphmend_bc as gm
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


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("if torch.arange(4).sum() > 5:\n        x = x + 1", "fold@2"),
        ("if (torch.linspace(0, 1, 3) > 1).all():\n        x = x + 1", "fold@2"),
        ("m = torch.zeros(3)\n    m.add_(1)\n    if m.sum() > 2:\n        x = x + 1", "fold@4"),
        # What is written rests on an input.
        ("m = torch.zeros(2)\n    m[0] = x[0]\n    if m.sum() > 0:\n        x = x + 1", "where@4"),
        ("m = torch.zeros(2)\n    m.copy_(x)\n    if m[0] > 0:\n        x = x + 1", "where@4"),
        (
            "m = torch.zeros(2)\n    m.view(2).mul_(x[1])\n    m += x\n    if m[0] > 0:\n        x = x + 1",
            "where@5",
        ),
        ("if x.sum() > 0 and torch.ones(2).sum() > 1:\n        x = x + 1", "where@2"),
    ],
)
def test_a_condition_that_rests_on_no_input(body: str, mends: str) -> None:
    source = f"def f(x):\n    {body}\n    return x * 2\n"
    check(source, [torch.tensor([1.0, 2.0]), torch.tensor([-3.0, 1.0])], mends)


def test_what_only_such_a_condition_asks_is_not_in_the_graph() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if torch.arange(4).cumsum(0).max() > 5 else x - 1

    met: list[int] = []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        met.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return graph

    with gm.enabled():
        torch._dynamo.reset()
        torch.compile(f, backend=backend)(torch.ones(2))  # type: ignore[arg-type]
    assert met == [1]
