"""Writes of an arm to tensors from outside it, made to a copy that is written back if it is taken.

    if p:               copy = x.clone(); copy.mul_(0.5)
        x.mul_(0.5)     x.copy_(torch.where(p, copy, x))

The write back happens whether or not the arm is taken, with the values that are there already if it
is not. So the tensor must be the graph's own, and autograd must not count its versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, Node, Proxy

from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.graph.fx_nodes import input_storages, name_called, storages, tensors_of
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.record import OpRecord, written_by
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


@dataclass(slots=True, eq=False)
class WrittenBack(Feature):
    """Storages that are written whether or not an arm is taken, with its branch."""

    order: ClassVar[int] = 20

    storages: dict[int, Site] = field(default_factory=dict)

    def on_question(self, compilation: Compilation, tensor: VariableTracker, name: str) -> None:
        """Refuse to say how often a tensor was written to that is written back in any case."""
        for memory in storages([tensor.as_proxy().node]) if name == "_version" else ():
            if memory in self.storages:
                detail = "Its version is asked for."
                raise SiteRefused(Refused("arm-mutates-tensor", detail), self.storages[memory])


def write_to_copies(
    output: OutputGraph, recorder: Recorder, nodes: Sequence[Node], records: Sequence[OpRecord]
) -> dict[Node, Node]:
    """Give an arm copies of the tensors from outside that it writes to.

    Args:
        output: the graph that is being traced.
        recorder: its operators so far.
        nodes: the arm's, in order.
        records: the arm's operators.

    Returns:
        By tensor from outside, its copy, which holds what the arm makes of it.

    Raises:
        Refused: it could be noticed that the tensor is written when the arm is not taken.
    """
    made = {s for record in records for s in record.allocated()}
    written = {storage_of(t) for record in records for t in written_by(record)} - made
    if not written:
        return {}
    outside = {n for node in nodes for n in node.all_input_nodes} - set(nodes)
    reached = {n: storages([n]) & written for n in output.graph.nodes if n in outside}
    targets = {n: memory for n, memory in reached.items() if memory}
    has_one_name = len(targets) == len(written) == len(set().union(*targets.values()))
    if not has_one_name or not written.isdisjoint(input_storages(output.graph)):
        raise Refused("arm-mutates-tensor", "It is an input, or has several names.")
    if may_differentiate(output.graph):
        raise Refused("arm-mutates-tensor", "Autograd counts the versions of tensors.")
    copies = {}
    for target in targets:
        copies[target] = copy = _copied(output, target, nodes[0])
        for node in nodes:
            node.replace_input_with(target, copy)
        recorder.written.append(storage_of(copy.meta["example_value"]))
    return copies


def write_back(
    tx: InstructionTranslatorBase,
    trace: Trace,
    site: Site,
    predicate: TensorVariable,
    taken: Mapping[Node, Node],
    other: Mapping[Node, Node],
) -> None:
    """Write what the taken arm made of the tensors.

    Args:
        tx: translator of the frame the branch is in.
        trace: the attempt that is running.
        site: the branch.
        predicate: true if the first arm is taken, a 0-dim bool tensor.
        taken, other: the arms' copies.
    """
    for target in dict.fromkeys([*taken, *other]):
        before, left, right = (
            Proxy(node, tx.output.current_tracer)
            for node in (target, taken.get(target, target), other.get(target, target))
        )
        example = target.meta["example_value"]
        trace.of(WrittenBack).storages[storage_of(example)] = site
        moved = predicate
        if predicate.as_proxy().node.meta["example_value"].device != example.device:
            moved = method(tx, "to", predicate, example.device)
        method(tx, "copy_", before, call(tx, "where", moved, left, right))


def as_outside(
    value: VariableTracker, writes: Mapping[Node, Node], live_ins: Sequence[VariableTracker]
) -> VariableTracker:
    """A result of an arm; where it is a written tensor itself, the variable from outside.

    Args:
        value: the result.
        writes: the arm's copies, by tensor from outside.
        live_ins: the arm's arguments.

    Raises:
        Refused: it shares memory with a written tensor.
    """
    value = value.realize()
    if not writes:
        return value
    if type(value) is TupleVariable:
        return TupleVariable([as_outside(item, writes, live_ins) for item in value.items])
    if isinstance(value, TensorVariable):
        return _tensor_outside(value, writes, live_ins)
    VariableTracker.visit(lambda inner: _check_apart(inner, writes), value)
    return value


def _tensor_outside(
    value: TensorVariable, writes: Mapping[Node, Node], live_ins: Sequence[VariableTracker]
) -> VariableTracker:
    node = value.as_proxy().node
    for live_in in live_ins:
        outside = live_in.realize()
        if not isinstance(outside, TensorVariable):
            continue
        target = outside.as_proxy().node
        if target in writes and (node is target or _is_result_of_write(node, writes[target])):
            return outside
    _check_apart(value, writes)
    return value


def _check_apart(value: VariableTracker, writes: Mapping[Node, Node]) -> None:
    written = storages(writes)
    if isinstance(value, TensorVariable) and written & storages([value.as_proxy().node]):
        raise Refused("arm-mutates-tensor", "A result shares memory with it.")


def _is_result_of_write(node: Node, copy: Node) -> bool:
    """True for `copy.mul_(2).add_(1)` and the like, which give the tensor itself."""
    while node is not copy:
        name = name_called(node)
        gives_first = name.endswith("_") or name in ("iadd", "isub", "imul", "itruediv", "ipow")
        if not gives_first or not node.args or not isinstance(node.args[0], Node):
            return False
        node = node.args[0]
    return True


def may_differentiate(graph: Graph) -> bool:
    """True if autograd may have kept a tensor of the graph for its backward."""
    switched = any("_set_grad_enabled" in name_called(node) for node in graph.nodes)
    if not (torch.is_grad_enabled() or switched):
        return False
    return any(tensor.requires_grad for node in graph.nodes for tensor in tensors_of(node))


def _copied(output: OutputGraph, target: Node, first: Node) -> Node:
    example = target.meta.get("example_value")
    if type(example) is not FakeTensor or example.layout is not torch.strided:
        raise Refused("arm-mutates-tensor", "It is no plain tensor.")
    if torch._debug_has_internal_overlap(example):
        raise Refused("arm-mutates-tensor", "Its elements may share memory.")
    with output.graph.inserting_before(first):
        copy = output.graph.call_method("clone", (target,))
    copy.meta["stack_trace"] = first.meta.get("stack_trace", "")
    with output.fake_mode:
        copy.meta["example_value"] = example.clone()
    return copy
