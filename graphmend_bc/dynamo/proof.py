"""Proofs that need the whole graph: run after tracing, before the backend sees the graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import torch
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.base import VariableTracker
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.arm import is_in_place
from graphmend_bc.dynamo.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.recorder import Recorder
from graphmend_bc.legality.alias import check_choice, storage_of
from graphmend_bc.reasons import Refused


def prove_graph(compilation: Compilation, gm: GraphModule, effects: SideEffects) -> None:
    """Show that the graph's choices cannot be told from eager's, and drop copies nobody needs.

    Raises:
        SiteRefused: a choice could be noticed.
    """
    trace = compilation.trace
    if trace.recorder is None:
        return
    if trace.effects and _exchanges_streams(effects):
        raise SiteRefused(trace.effects[0], Refused("effect-moved"))
    written = trace.recorder.written
    inputs = _storages(node for node in gm.graph.nodes if node.op in ("placeholder", "get_attr"))
    outputs = _storages(
        node for out in gm.graph.nodes if out.op == "output" for node in out.all_input_nodes
    )
    opaque = [n for n in gm.graph.nodes if isinstance(n.target, HigherOrderOperator)]
    if trace.speculated or trace.effects:
        try:
            _check_can_be_taken_back(trace.recorder, inputs, opaque)
            trace.can_be_taken_back = trace.ahead.can_miss = True
        except Refused as refused:
            if trace.speculated:
                raise SiteRefused(trace.speculated[0], refused) from refused
    choices = [choice for _, choice in trace.choices.values()]
    for site, choice in trace.choices.values():
        try:
            check_choice(choice, choices, [*written, *_renamed(gm)], inputs | outputs)
            if opaque and choice.outside:
                raise Refused("alias-mutated", f"It may be changed inside {opaque[0].target}.")
            if trace.recorder.strided and choice.outside:
                raise Refused("identity-compared", "as_strided looks at the whole memory.")
        except Refused as refused:
            raise SiteRefused(site, refused) from refused
    _drop_copies(trace, gm, written, opaque)
    trace.close()


_TELL_CHOICES_APART = frozenset(
    (
        "_backward_hooks",
        "_base",
        "_is_view",
        "_version",
        "data_ptr",
        "grad_fn",
        "is_leaf",
        "is_set_to",
        "output_nr",
        "retain_grad",
        "retains_grad",
        "storage",
        "storage_offset",
        "untyped_storage",
    )
)


def check_question(compilation: Compilation, name: str) -> None:
    """Refuse questions that a chosen tensor answers otherwise than the tensor eager Python has.

    Attributes that torch does not define are the user's, and stay with the tensor they were set on.

    Raises:
        SiteRefused: the answer could differ.
    """
    if name in _TELL_CHOICES_APART or not hasattr(torch.Tensor, name):
        site = next(iter(compilation.trace.choices.values()))[0]
        raise SiteRefused(site, Refused("identity-compared", f"A tensor is asked for '{name}'."))


def _check_can_be_taken_back(recorder: Recorder, inputs: set[int], opaque: list[Node]) -> None:
    """Show that nothing is left of the graph when its results are thrown away."""
    if inputs & set(recorder.written):
        raise Refused("speculation-writes-input")
    if recorder.draws is not None:
        raise Refused("speculation-draws-random", f"The operator is {recorder.draws}.")
    if recorder.foreign is not None:
        raise Refused("speculation-has-effects", f"The operator is {recorder.foreign}.")
    if opaque:
        raise Refused("speculation-has-effects", f"The operator is {opaque[0].target}.")


def check_identity(compilation: Compilation, operands: Iterable[VariableTracker]) -> None:
    """Refuse to say which tensor a chosen one is: eager Python might find it to be an arm's.

    Args:
        compilation: what is being compiled.
        operands: values that are compared by identity, hashed, or asked for their id.

    Raises:
        SiteRefused: one operand is such a tensor.
    """
    nodes = [value.as_proxy().node for value in operands if value.is_tensor()]
    for node in nodes:
        if node in compilation.trace.choices:
            raise SiteRefused(compilation.trace.choices[node][0], Refused("identity-compared"))


def _exchanges_streams(effects: SideEffects) -> bool:
    """True if the function sets `sys.stdout` or `sys.stderr`, which is replayed after effects."""
    return any(
        getattr(item, "value", None) is sys and names.keys() & {"stdout", "stderr"}
        for item, names in effects.store_attr_mutations.items()
    )


def _renamed(gm: GraphModule) -> list[int]:
    """Storages of tensors that are changed in place without a write, as `detach_` does."""
    nodes = [n.args[0] for n in gm.graph.nodes if is_in_place(n) and n.args]
    return list(_storages(n for n in nodes if isinstance(n, Node)))


def _storages(nodes: Iterable[Node]) -> set[int]:
    found: set[int] = set()
    for node in nodes:
        leaves = torch.utils._pytree.tree_leaves(node.meta.get("example_value"))
        found |= {storage_of(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}
    return found


def _drop_copies(trace: Trace, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
    """An effect's argument is copied only if something writes to it before the effect runs."""
    dropped = False
    alive = set(gm.graph.nodes)
    for copy, since in trace.snapshots:
        if copy not in alive or opaque:
            continue
        source = copy.args[0]
        assert isinstance(source, Node)
        storage = storage_of(source.meta["example_value"])
        if source.op not in ("placeholder", "get_attr") and storage not in written[since:]:
            copy.replace_all_uses_with(source)
            gm.graph.erase_node(copy)
            dropped = True
    if dropped:
        gm.recompile()
