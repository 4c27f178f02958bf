"""Values that a graph computes from a tensor before it writes to it, and needs for a gradient.

    codes = self.embedding[index]
    loss = (x * self.weight - codes).square().sum()
    with torch.no_grad():
        self.embedding.lerp_(means, 0.1)

AOTAutograd may compute `codes` once more in the backward pass, from what is in the memory then. So
gradients are wrong in one graph, and right where a break stands between the read and the write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import torch
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import (
    has_out,
    input_storages,
    is_input,
    is_writing,
    name_called,
    storages,
    tensors_of,
)


def needs_former_values(gm: GraphModule, written: Collection[int]) -> bool:
    """Whether a backward pass may need what an input held before the graph writes to it.

    Args:
        gm: the graph.
        written: storages that it writes to.
    """
    changed = input_storages(gm.graph).intersection(written)
    if not changed:
        return False
    nodes, last = [*gm.graph.nodes], dict[int, int]()
    for index, node in enumerate(nodes):
        last |= dict.fromkeys(storages(_written_by(node)) & changed, index)
    former = set[Node]()
    for index, node in enumerate(nodes):
        given = [] if is_input(node) else node.all_input_nodes
        read = {storage for storage in storages(given) & changed if index < last.get(storage, 0)}
        if not read and former.isdisjoint(given):
            continue
        if node.op != "output" and _is_kept(node):
            return True
        if changed.isdisjoint(storages([node])):  # not a view of what is written
            former.add(node)
    return False


def _written_by(node: Node) -> Iterator[Node]:
    """What a node changes in place, as far as it is told by what is called."""
    if has_out(node):
        yield from (each for each in node.all_input_nodes if _is_among(each, node.kwargs["out"]))
    if is_writing(node):
        yield from (each for each in node.all_input_nodes if _is_among(each, node.args[0]))


def _is_among(node: Node, argument: object) -> bool:
    return any(each is node for each in torch.utils._pytree.tree_leaves(argument))


def _is_kept(node: Node) -> bool:
    """Whether the derivative of what a node computes may ask for its operands."""
    return name_called(node) not in _LINEAR and any(t.requires_grad for t in tensors_of(node))


_LINEAR: Final = frozenset(
    {"add", "sub", "iadd", "isub", "add_", "sub_", "rsub", "neg", "cat", "concat", "stack"}
)
