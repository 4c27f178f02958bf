"""What several values are computed from before a graph, computed once in a lookup of guards.

    sizes = (x.softmax(-1) * 8).long()
    for i in range(20):
        parts.append(y[: int(sizes[i])])    twenty numbers, each computed from the same tensors

Each value has a slice of the graph of its own. From the second one on that has some nodes in common
with those before it, the slice remembers what its nodes give, for all that are asked in the lookup.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from torch.fx import Node
from torch.fx.node import map_arg

from graphmend_bc.dynamo.graph.fx_nodes import is_input

Memo = MutableMapping[int, Any]
"""What nodes have given in a lookup, by their numbers."""

_FEWEST: Final = 4
"""Nodes in common from which on it costs less to remember them than to run them again."""

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class SharedSteps:
    """The nodes of a slice, run as far as a lookup has not run them.

    Attributes:
        inputs: those that are arguments, with their positions.
        numbers: the others in their order, with the number of each.
        outputs: those whose values are wanted.
    """

    inputs: Mapping[Node, int]
    numbers: Mapping[Node, int]
    outputs: tuple[Node, ...]

    def __call__(self, arguments: Sequence[Any], memo: Memo) -> list[Any]:
        """The values of the outputs.

        Args:
            arguments: of the slice.
            memo: of the lookup.
        """
        needed, left = set[Node](), list(self.outputs)
        while left:
            node = left.pop()
            if node in self.numbers and self.numbers[node] not in memo and node not in needed:
                needed.add(node)
                left += node.all_input_nodes

        def value(node: Node) -> Any:
            return arguments[self.inputs[node]] if node in self.inputs else memo[self.numbers[node]]

        for node, number in self.numbers.items():
            if node in needed:
                memo[number] = _called(node, map_arg(node.args, value), map_arg(node.kwargs, value))
        return [value(node) for node in self.outputs]


def _called(node: Node, args: Any, kwargs: Any) -> Any:
    """What a node gives."""
    if node.op == "call_method":
        owner, *rest = args
        return getattr(owner, cast(str, node.target))(*rest, **kwargs)
    assert callable(node.target)
    return node.target(*args, **kwargs)


def shared_steps(
    known: dict[Node, int], copies: Mapping[Node, Node], outputs: Sequence[Node]
) -> SharedSteps | None:
    """The nodes of a slice, if others before it have some of them.

    Args:
        known: numbers of the nodes that slices of the trace have; those of this one are added.
        copies: the nodes of the slice in the traced graph, in their order, with those of its own.
        outputs: of them, those whose values are wanted.

    Returns:
        None if nothing is to be had by it.
    """
    computed = [node for node in copies if not is_input(node)]
    common = sum(node in known for node in computed)
    for node in computed:
        known.setdefault(node, next(_numbers))
    if common < _FEWEST:
        return None
    inputs = [copies[node] for node in copies if is_input(node)]
    numbers = {copies[node]: known[node] for node in computed}
    places = {node: place for place, node in enumerate(inputs)}
    return SharedSteps(places, numbers, tuple(copies[node] for node in outputs))
