"""Assertions on sizes that hold by what the size is of: each costs an operator in every call.

torch adds one for all it knows of a number that it learns only at run time, such as that a size is
not negative. What is assumed of the number stays asserted.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import Graph, Node

from graphmend_bc.dynamo.graph.fx_nodes import name_called


def drop_idle_asserts(graph: Graph) -> bool:
    """Take assertions out of a graph that cannot fail.

    Args:
        graph: the complete graph.

    Returns:
        Whether there were any.
    """
    idle = [
        (node, condition)
        for node in graph.find_nodes(
            op="call_function", target=torch.ops.aten._assert_scalar.default
        )
        if isinstance(condition := node.args[0], Node) and _holds(condition)
    ]
    for node, condition in idle:
        graph.erase_node(node)
        if not condition.users:
            graph.erase_node(condition)
    return bool(idle)


def _holds(condition: Node) -> bool:
    """Whether a comparison of a size with a number is true of every tensor."""
    if condition.target not in (operator.ge, operator.le):
        return False
    size, bound = condition.args
    if not isinstance(size, Node) or size.target is not torch.ops.aten.sym_size.int:
        return False
    if type(bound) is not int:
        return False
    if condition.target is operator.ge:
        return bound <= 0
    tensor, dim = size.args
    most = _most_rows(tensor) if isinstance(tensor, Node) and dim == 0 else None
    return most is not None and most <= bound


def _most_rows(tensor: Node) -> int | None:
    """How many rows a tensor has at most that were selected by a mask; None if not known."""
    name = name_called(tensor)
    if name in ("getitem", "__getitem__") and len(tensor.args) == 2:
        mask = tensor.args[1]
    elif name == "nonzero" and not tensor.kwargs:
        mask = tensor.args[0]
    else:
        return None
    value = mask.meta.get("example_value") if isinstance(mask, Node) else None
    if not isinstance(value, torch.Tensor) or (name != "nonzero" and value.dtype is not torch.bool):
        return None
    count = value.numel()
    return count if type(count) is int else None
