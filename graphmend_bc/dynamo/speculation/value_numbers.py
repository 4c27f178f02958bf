"""Value numbers: nodes of graphs that have one number have one value.

Two nodes have one number if they call the same function of torch's with the same values, and that
function only computes: it draws nothing, writes nothing, and reads no memory that nobody wrote.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from graphmend_bc.dynamo.graph.fx_nodes import (
    has_out,
    is_input,
    is_torchs_own,
    is_writing,
    name_called,
    sets_a_mode,
    tensors_of,
)
from graphmend_bc.dynamo.trace.op_recorder import Recorder

_MAY_BE_CAST = ("mm", "matmul", "linear", "conv", "attention", "einsum", "dot", "cdist", "rnn")
"""Parts of names of functions that compute with fewer bits where autocast is on."""


@dataclass(frozen=True, slots=True)
class _Value:
    """In the place of a node in what it is an argument of; no constant has its text."""

    number: int


def value_numbers(
    graphs: Iterable[Graph], same: Mapping[Node, Node], recorder: Recorder
) -> dict[Node, int]:
    """The numbers of the nodes of some graphs. What may have any value has none.

    Args:
        graphs: those that others refer to come first.
        same: inputs of a graph that are nodes of a graph before it, and which.
        recorder: of the trace that made the graphs.
    """
    numbers, table = dict[Node, int](), dict[Hashable, int]()
    for node in (node for graph in graphs for node in graph.nodes):
        number = numbers.get(same[node]) if node in same else None
        if number is None and (key := _key(node, numbers, recorder)) is not None:
            number = table.setdefault(key, len(table))
        if number is not None:
            numbers[node] = number
    return numbers


def _key(node: Node, numbers: Mapping[Node, int], recorder: Recorder) -> Hashable:
    """What nodes with the same value agree in; None if it may be any."""
    value = node.meta.get("example_value")
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return "symbol", type(value), str(value.node.expr)
    if is_input(node):
        return node
    if not _only_computes(node) or node in recorder.drawing:
        return None
    if any(given not in numbers for given in node.all_input_nodes):
        return None
    tensors = tensors_of(node)
    if any(tensor.layout is not torch.strided for tensor in tensors):
        return None
    form = tuple((tensor.dtype, tensor.device, str(tensor.shape)) for tensor in tensors)
    given = map_arg((node.args, node.kwargs), lambda each: cast(Any, _Value(numbers[each])))
    return node.op, node.target, form, repr(given)


def _only_computes(node: Node) -> bool:
    if node.op not in ("call_function", "call_method") or not is_torchs_own(node):
        return False
    name = name_called(node)
    if "empty" in name or any(part in name for part in _MAY_BE_CAST):
        return False
    return not (is_writing(node) or has_out(node) or sets_a_mode(node))
