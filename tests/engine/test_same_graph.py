"""A process that knows what worked before makes the same graph: torch's caches ask for every name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from tests.oracle import load

FORMS = {
    "an arm without a gradient": """
        def f(x):
            x = x @ x
            if x.abs().max() < 0.1:
                return torch.tanh(x.detach())
            x = torch.relu(x)
            return x + 1
        """,
    "arms that return other things": """
        def f(x):
            y = x * 2
            if y.sum() > 0:
                z = y + 1
                return z, z * 2
            z = y - 1
            return z
        """,
    "a short circuit": """
        def f(x):
            y = x * 2
            if (y > 0).all() and torch.stack([y, y]).nonzero().shape[0]:
                y = y + 1
            return y - 1
        """,
    "an arm that writes": """
        SEEN = []

        def f(x):
            x = x * 2
            if x.sum() > 0:
                y = x.sin()
                SEEN.append(y)
            y = x.cos()
            return y
        """,
    "a draw in the condition": """
        def f(x):
            y = x * 2
            if torch.rand([]) < 2:
                return y.sin(), 1
            return y.cos(), 2
        """,
}


def graphs_of(function: Any, x: torch.Tensor) -> list[str]:
    """The code of each graph, by a state that knows only what is on disk."""
    graphs: list[str] = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        graphs.append(module.print_readable(print_output=False))
        return module.forward

    torch._dynamo.reset()
    state = session.new_state(mends=True)
    state.decisions = DecisionCache()
    with session.mending_by(state):
        torch.compile(function, backend=backend)(x)
    return graphs


@pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("trains", [False, True])
def test_same_graph(source: str, trains: bool, tmp_path: Path) -> None:
    x = torch.linspace(0.1, 1, 4).reshape(2, 2).requires_grad_(trains)
    with gm.config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        first, second = (graphs_of(load(source).f, x) for _ in range(2))
    assert first == second != []
    assert any(tmp_path.iterdir())
