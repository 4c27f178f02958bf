"""Proofs that need the whole graph: run after tracing, before the backend sees the graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew, VariableTracker
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc.dynamo.graph.fx_nodes import (
    input_storages,
    is_in_place,
    is_input,
    storages,
    tensors_of,
)
from graphmend_bc.dynamo.graph.input_aliasing import check_apart, layout_of
from graphmend_bc.dynamo.rollback import checkpoints
from graphmend_bc.dynamo.rollback.rollback_analysis import undo_of
from graphmend_bc.dynamo.substitutes import requires_grad
from graphmend_bc.dynamo.trace.context import Compilation, SiteRefused, TextsMoved, Trace
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.alias import check_choice, storage_of
from graphmend_bc.reporting.reasons import Refused


def prove_graph(compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
    """Show that the graph's choices cannot be told from eager's, and drop copies nobody needs.

    Raises:
        SiteRefused: a choice could be noticed.
    """
    trace = compilation.trace
    if trace.recorder is None:
        return
    if trace.effects and _exchanges_streams(output.side_effects):
        raise SiteRefused(Refused("effect-moved"), trace.effects[0])
    if trace.leaves:
        requires_grad.check_unnoticed(trace, gm.graph)
    opaque = [
        node
        for node in gm.graph.nodes
        if isinstance(node.target, HigherOrderOperator) and node not in trace.functional
    ]
    _find_way_back(compilation, gm, output, opaque)
    _check_way_back(compilation)
    anew = trace.recorder.used_anew if trace.recorder.learns_anew else None
    if trace.used and anew and anew & input_storages(gm.graph):
        raise SiteRefused(Refused("gradient-of-written"), *trace.used)
    if trace.counters:
        _check_sizes(trace, gm)
    written = trace.recorder.written
    if trace.choices:
        _check_choices(trace, trace.recorder, gm, output, opaque)
    if trace.used:
        trace.layout = layout_of(gm, output, written)
    _drop_copies(trace, gm, written, opaque)
    trace.proven = True
    trace.close()


def _find_way_back(
    compilation: Compilation, gm: GraphModule, output: OutputGraph, opaque: list[Node]
) -> None:
    """Tell how the graph is undone, where it may turn out to be useless or may raise.

    A graph that raises must not lose what stock's graph before the break would have left, nor be
    out of reach of a handler that stands between two graphs of stock's.
    """
    trace = compilation.trace
    assert trace.recorder is not None
    mended = trace.used or compilation.follows
    changes_state = _changes_state(output.side_effects)
    raising = mended and (trace.handles or changes_state)
    trace.leaves_more = bool(mended and (trace.effects or changes_state))
    if trace.leaves_more and trace.used and checkpoints.stops_early():
        raise SiteRefused(Refused("under-checkpoint"), *trace.used)
    if not (_is_undone(trace) or raising):
        return
    try:
        trace.undo = undo_of(trace, gm, opaque, output)
        trace.ahead.can_miss = True
    except Refused as refused:
        guessed = [guess.site for guess, _ in trace.guesses]
        fails = trace.used if trace.recorder.rejects else ()
        if sites := dict.fromkeys(guessed or trace.captured or trace.draws or fails):
            raise SiteRefused(refused, *sites) from refused


def _check_way_back(compilation: Compilation) -> None:
    """Refuse calls that stand only where the graph can be undone, or leaves nothing to undo."""
    trace = compilation.trace
    if trace.handled and not trace.ahead.can_miss:
        reason = "A handler would meet it when more has happened than before the call."
        raise SiteRefused(Refused("effect-raises", reason), *dict.fromkeys(trace.handled))
    if trace.whole and not (trace.undo is not None and trace.undo.is_nothing):
        if trace.texts_of_objects and not compilation.exact_texts:
            raise TextsMoved
        reason = "It is an object, and the graph changes more than its results."
        raise SiteRefused(Refused("effect-argument", reason), *dict.fromkeys(trace.whole))


def _check_choices(
    trace: Trace, recorder: Recorder, gm: GraphModule, output: OutputGraph, opaque: list[Node]
) -> None:
    """Refuse choices of tensors that a write, or a look at their memory, would tell apart."""
    written = recorder.written
    outputs = storages(
        node for out in gm.graph.nodes if out.op == "output" for node in out.all_input_nodes
    )
    choices = [choice for _, choice in trace.choices.values()]
    changed, visible = [*written, *_renamed(gm)], input_storages(gm.graph) | outputs
    for site, choice in trace.choices.values():
        try:
            check_choice(choice, choices, changed, visible)
            if opaque and choice.outside:
                raise Refused("alias-mutated", f"It may be changed inside {opaque[0].target}.")
            if recorder.strided and choice.outside:
                raise Refused("identity-compared", "as_strided looks at the whole memory.")
            check_apart(gm, output, choice.outside, written)
        except Refused as refused:
            raise SiteRefused(refused, site) from refused


def _is_undone(trace: Trace) -> bool:
    """True if something may come to light that makes the graph useless."""
    known = (trace.guesses, trace.effects, trace.functional, trace.captured, trace.draws)
    return any(known) or trace.stock_asserts


def _check_sizes(trace: Trace, gm: GraphModule) -> None:
    """Refuse sizes that a loop counts: Dynamo takes it that they are not 0 or 1."""
    for node in gm.graph.nodes:
        if any(map(free_unbacked_symbols, tensors_of(node))):
            site = trace.counters[0][0]
            raise SiteRefused(Refused("loop-carries-value", "A size depends on it."), site)


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
        raise SiteRefused(Refused("identity-compared", f"A tensor is asked for '{name}'."), site)


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
            raise SiteRefused(Refused("identity-compared"), compilation.trace.choices[node][0])


def _exchanges_streams(effects: SideEffects) -> bool:
    """True if the function sets `sys.stdout` or `sys.stderr`, which is replayed after effects."""
    return any(
        getattr(item, "value", None) is sys and names.keys() & {"stdout", "stderr"}
        for item, names in effects.store_attr_mutations.items()
    )


def _changes_state(effects: SideEffects) -> bool:
    """True if Dynamo changes something after the graph that was there before it."""
    return bool(effects.tensor_hooks) or any(
        effects.is_modified(item)
        for item in effects.id_to_variable.values()
        if not isinstance(item.mutation_type, (AttributeMutationNew, ValueMutationNew))
    )


def _renamed(gm: GraphModule) -> list[int]:
    """Storages of tensors that are changed in place without a write, as `detach_` does."""
    nodes = [n.args[0] for n in gm.graph.nodes if is_in_place(n) and n.args]
    return list(storages(n for n in nodes if isinstance(n, Node)))


def _drop_copies(trace: Trace, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
    """An effect's argument is copied only if something writes to it before the effect runs.

    Two inputs may be views of the same memory in another call, so a write to one may reach all.
    """
    dropped = False
    alive = set(gm.graph.nodes)
    inputs = input_storages(gm.graph)
    for copy, since in trace.snapshots:
        if copy not in alive or opaque:
            continue
        source = copy.args[0]
        assert isinstance(source, Node)
        storage, later = storage_of(source.meta["example_value"]), set(written[since:])
        reached = storage in later or (storage in inputs and later & inputs)
        if not is_input(source) and not reached:
            copy.replace_all_uses_with(source)
            gm.graph.erase_node(copy)
            dropped = True
    if dropped:
        gm.recompile()
