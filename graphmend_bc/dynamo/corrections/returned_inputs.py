"""Inputs that a graph changes and returns: the frame gets them, whatever the backend returns.

Up to torch 2.14 AOTAutograd takes one result for another where a graph returns an input that it
changes (`s.add_(1); return s.float()`) and changes another one that requires a gradient
(`p.data.add_(1)`): it returns the changed one in the place of a change that is still to be made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import tensors_of
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.legality.storage import storage_of


@dataclass(slots=True, eq=False)
class ReturnedInputs(Feature):
    """The inputs that the frame gets.

    Attributes:
        positions: of the inputs among the graph's arguments, by their positions in its results.
    """

    positions: dict[int, int] = field(default_factory=dict)

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _with_inputs(graph, self.positions)


def take_out(compilation: Compilation, gm: GraphModule, written: Collection[int]) -> None:
    """Have a graph return None in place of each input that it changes and returns.

    Args:
        compilation: what is being compiled; its attempt notes where they are.
        gm: the graph, which is changed.
        written: storages that it changes in place.
    """
    if not written or compilation.is_saved:
        return
    inputs = {
        id(tensor): index
        for index, node in enumerate(gm.graph.find_nodes(op="placeholder"))
        for tensor in tensors_of(node)
        if storage_of(tensor) in written
    }
    output = gm.graph.output_node()
    results = cast("Sequence[Any]", output.args[0])
    positions = {
        place: inputs[id(tensor)]
        for place, result in enumerate(results)
        if isinstance(result, Node)
        for tensor in tensors_of(result)
        if id(tensor) in inputs
    }
    if positions:
        compilation.trace.of(ReturnedInputs).positions = positions
        kept = (None if place in positions else each for place, each in enumerate(results))
        output.args = (tuple(kept),)
        gm.recompile()


def _with_inputs(graph: Callable[..., Any], positions: dict[int, int]) -> Callable[..., Any]:
    """A graph whose missing results are arguments of it."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        results = list(graph(*args, **kwargs))
        for place, position in positions.items():
            results[place] = args[position]
        return results

    return run_graph
