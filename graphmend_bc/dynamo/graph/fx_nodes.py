"""Questions about the nodes of a graph that is being traced."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import takewhile

import torch
from torch._guards import Source
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, Node

from graphmend_bc.legality.storage import storage_of


def last_node(graph: Graph) -> Node | None:
    """The last node of a graph; None if it has none."""
    last = graph._root.prev  # the nodes are a ring; asked at each call that is traced
    return None if last is graph._root else last


def nodes_after(graph: Graph, last: Node | None) -> tuple[Node, ...]:
    """The nodes added at the end since `last` was the last one; inputs go to the front."""
    return tuple(takewhile(lambda node: node is not last, reversed(graph.nodes)))[::-1]


def name_called(node: Node) -> str:
    """The name of the function or method that a node calls; empty if it has none."""
    target = node.target
    return target if isinstance(target, str) else getattr(target, "__name__", "")


def is_in_place(node: Node) -> bool:
    """True if a node changes its first argument, by the name of what it calls.

    Some changes are no writes and reach no operator with a mutable schema: `detach_`.
    """
    if node.op not in ("call_method", "call_function"):
        return False
    if getattr(node.target, "__module__", "") == "_operator":
        return False  # `operator.or_` and the like; `operator.iadd` runs an operator that is seen
    name = name_called(node)
    return name.endswith("_") and not name.endswith("__")


def is_writing(node: Node) -> bool:
    """True if a node changes its first argument."""
    return is_in_place(node) or name_called(node) in _ASSIGNMENTS


_ASSIGNMENTS = frozenset(
    {
        *("setitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"),
        *("iand", "ior", "ixor", "ilshift", "irshift"),
    }
)
"""Functions of `operator` that write."""


def has_out(node: Node) -> bool:
    """True if a node writes its result into tensors that it is given; `out=None` asks for none."""
    return node.kwargs.get("out") is not None


def is_torchs_own(node: Node) -> bool:
    """True unless a node calls something of the user's, or a higher-order operator."""
    target = node.target
    if isinstance(target, HigherOrderOperator) or node.op == "call_module":
        return False
    if isinstance(target, OpOverload):
        return target.namespace in ("aten", "prims")
    home = str(getattr(target, "__module__", None) or "torch")
    return isinstance(target, str) or home.split(".")[0] in ("torch", "_operator", "math")


def tensors_of(node: Node) -> list[torch.Tensor]:
    """The fake tensors in a node's value."""
    leaves = torch.utils._pytree.tree_leaves(node.meta.get("example_value"))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def keep_unused_indexing(graph: Graph) -> None:
    """Let a subscript by a tensor stay although nothing uses it: its index may be out of bounds.

    Dynamo drops unused calls of `operator.getitem`, but no method calls.
    """
    unused = set[Node]()
    for node in reversed(graph.nodes):
        if node.op != "output" and unused.issuperset(node.users):
            unused.add(node)
            if node.target is operator.getitem and _has_tensor(node.args[1]):
                node.op, node.target = "call_method", "__getitem__"


def _has_tensor(key: object) -> bool:
    nodes = [leaf for leaf in torch.utils._pytree.tree_leaves(key) if isinstance(leaf, Node)]
    return any(tensors_of(node) for node in nodes)


def is_input(node: Node) -> bool:
    """True for what a graph is given or holds."""
    return node.op in ("placeholder", "get_attr")


def input_source(node: Node) -> Source | None:
    """Where a frame finds an input of its graph; None if that is not known, or it is no input."""
    source = getattr(node.meta.get("grapharg"), "source", None)
    return source if isinstance(source, Source) else None


def with_ancestors(nodes: Iterable[Node]) -> set[Node]:
    """Some nodes, and all that they are computed from."""
    found, left = set[Node](), [*nodes]
    while left:
        if (node := left.pop()) not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def storages(nodes: Iterable[Node]) -> set[int]:
    """The storages of the tensors in some nodes' values."""
    return {storage_of(tensor) for node in nodes for tensor in tensors_of(node)}


def input_storages(graph: Graph) -> set[int]:
    """The storages of what a graph is given or holds."""
    return storages(filter(is_input, graph.nodes))


def sets_a_mode(node: Node) -> bool:
    """True for calls such as `torch.use_deterministic_algorithms(True)`."""
    is_setter = node.op == "call_function" and name_called(node).lstrip("_").startswith("set_")
    return is_setter and name_called(node) not in _ROLLED_BACK and "example_value" not in node.meta


_ROLLED_BACK = frozenset(("_set_grad_enabled", "set_inplace_requires_grad_allowed"))
"""Modes that are put back with the graph."""
