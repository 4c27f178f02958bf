"""What Dynamo notes about the user's code holds for the rewritten code that it traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import graphmend_bc as gm


def sized(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + x.shape[0]


def test_sizes_that_vary_before_the_first_compilation() -> None:
    """One compilation: eager calls have shown which sizes vary."""
    shapes: list[Any] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        shapes.append([type(given) for given in inputs])
        return graph

    torch._dynamo.reset()
    with gm.enabled(), torch.compiler.set_stance("eager_then_compile"):
        compiled = torch.compile(sized, backend=backend)
        for size in (3, 4, 5, 6):
            given = torch.arange(float(size))
            assert torch.equal(compiled(given), sized(given))
        (mend,) = gm.report().mends
    assert (mend.strategy, len(shapes)) == ("where", 1)


@torch.fx.wrap
def shout(x: torch.Tensor) -> None:
    print("shape", x.shape)


class Shouting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        shout(y)
        return y + 1


def marked() -> torch.fx.GraphModule:
    module = torch.fx.symbolic_trace(Shouting())
    for node in module.graph.nodes:
        node.meta["custom"] = {"mark": node.name}
    module.recompile()
    return module


def marks(wrap: Callable[[torch.fx.GraphModule], Callable[..., Any]]) -> list[list[str]]:
    """The marks of the operators in each graph."""
    graphs: list[list[str]] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        nodes = [node for node in graph.graph.nodes if node.op == "call_function"]
        graphs.append([node.meta.get("custom", {}).get("mark", "") for node in nodes])
        return graph

    torch._dynamo.reset()
    torch.compile(wrap(marked()), backend=backend)(torch.ones(2))
    return graphs


def test_nodes_of_a_graph_module(capsys: Any) -> None:
    """Retraced with a rewrite, they keep the metadata that they had."""
    assert marks(lambda module: module) == [["mul"], ["add"]]
    with gm.enabled():
        assert marks(lambda module: module) == [["mul", "add"]]
        assert marks(lambda module: lambda x: module(x)) == [["mul", "add"]]
        assert {mend.strategy for mend in gm.report().mends} == {"defer"}
    assert capsys.readouterr().out.count("shape") == 3
