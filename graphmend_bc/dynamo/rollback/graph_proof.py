"""Proofs that need the whole graph: run after tracing, before the backend sees the graph."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew, VariableTracker
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.calls.backward_pass import has_passed
from graphmend_bc.dynamo.calls.higher_order import HigherOrder
from graphmend_bc.dynamo.corrections import returned_inputs, saved_tensors
from graphmend_bc.dynamo.graph.backends import runs_as_traced
from graphmend_bc.dynamo.graph.fx_nodes import (
    input_storages,
    is_in_place,
    is_input,
    storages,
    tensors_of,
)
from graphmend_bc.dynamo.graph.input_aliasing import check_inputs_apart, layout_of
from graphmend_bc.dynamo.rollback import checkpoints
from graphmend_bc.dynamo.rollback.exchanged_inputs import unread_before
from graphmend_bc.dynamo.rollback.former_values import needs_former_values
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback, has_history, need_of, undo_of
from graphmend_bc.dynamo.rollback.saved_frames import check_savable
from graphmend_bc.dynamo.symbols import captures
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.storage import check_choice, storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


def prove_graph(compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
    """Show that the graph's choices cannot be told from eager's, and drop copies nobody needs.

    Raises:
        SiteRefused: a choice could be noticed.
    """
    trace = compilation.trace
    if trace.listener is None:
        return
    if not _rests_on_ours(compilation):
        trace.proven = True
        trace.close()
        return
    if trace.effects and _exchanges_streams(output.side_effects):
        raise SiteRefused(Refused("effect-moved"), trace.effects[0])
    for feature in trace.obliged(Feature.on_graph):
        feature.on_graph(compilation, gm, output)
    operators, rollback = trace.of(HigherOrder), trace.of(Rollback)
    opaque = [
        node
        for node in gm.graph.nodes
        if isinstance(node.target, HigherOrderOperator) and node not in operators.functional
    ]
    _find_rollback(compilation, gm, output, opaque)
    for feature in trace.obliged(Feature.on_roll_back):
        feature.on_roll_back(compilation, rollback.undo)
    recorder = trace.listen(output)
    _check_gradients(trace, recorder, gm, output)
    operators.check_sizes(gm)
    written = recorder.written
    if trace.choices:
        _check_choices(trace, recorder, gm, output, opaque)
    if trace.mended:
        rollback.layout = layout_of(gm, output, written)
    if compilation.is_saved:
        check_savable(compilation, output.side_effects)
        captures.stop_listening(output)
    for feature in trace.obliged(Feature.on_proof):
        feature.on_proof(gm, written, opaque)
    returned_inputs.take_out(compilation, gm, written)
    if trace.mended and not compilation.is_saved and runs_as_traced(output.compiler_fn):
        saved_tensors.save_by_autograd(gm)
    trace.proven = True
    trace.close()


def _check_gradients(
    trace: Trace, recorder: Recorder, gm: GraphModule, output: OutputGraph
) -> None:
    """Refuse where AOTAutograd may compute a gradient from an input that was written since."""
    if not trace.mended:
        return
    anew = recorder.used_anew if recorder.learns_anew else None
    may_be_wrong = bool(anew and anew & _differentiable(recorder, gm)) or (
        needs_former_values(gm, recorder.written) and not runs_as_traced(output.compiler_fn)
    )
    if may_be_wrong and _is_differentiated(trace, recorder, gm):
        raise SiteRefused(Refused("gradient-of-written"), *trace.mended)


def _differentiable(recorder: Recorder, gm: GraphModule) -> set[int]:
    """The storages of inputs that require a gradient, and that the graph may have read before."""
    inputs = filter(is_input, gm.graph.nodes)
    learning = (node for node in inputs if any(t.requires_grad for t in tensors_of(node)))
    exchanged = {each.after for each in recorder.exchanges if each.learns}
    return (storages(learning) | exchanged) - unread_before(recorder, gm)


def _is_differentiated(trace: Trace, recorder: Recorder, gm: GraphModule) -> bool:
    """False if the graph holds its backward pass, and leaves nothing to differentiate."""
    if not has_passed(trace):
        return True
    written, inputs = set(recorder.written), filter(is_input, gm.graph.nodes)
    outputs = gm.graph.output_node().all_input_nodes
    left = [t for node in outputs for t in tensors_of(node)]
    left += [t for node in inputs for t in tensors_of(node) if storage_of(t) in written]
    return any(map(has_history, left))


def _rests_on_ours(compilation: Compilation) -> bool:
    """False if nothing of ours takes part in a graph: there is nothing to prove."""
    trace = compilation.trace
    proofs = (Feature.on_graph, Feature.on_roll_back, Feature.on_proof)
    return bool(
        trace.used
        or trace.choices
        or compilation.follows
        or need_of(trace)
        or any(trace.obliged(proof) for proof in proofs)
    )


def _find_rollback(
    compilation: Compilation, gm: GraphModule, output: OutputGraph, opaque: list[Node]
) -> None:
    """Tell how the graph is undone, where it may turn out to be useless or may raise.

    A graph that raises must not lose what stock's graph before the break would have left, nor be
    out of reach of a handler that stands between two graphs of stock's.
    """
    trace = compilation.trace
    rollback = trace.of(Rollback)
    mended = bool(trace.mended) or compilation.follows
    changes_state = _changes_state(output.side_effects)
    raising = mended and (rollback.handles or changes_state)
    rollback.leaves_more = mended and bool(trace.effects or changes_state)
    if rollback.leaves_more and trace.mended and checkpoints.stops_early():
        raise SiteRefused(Refused("under-checkpoint"), *trace.mended)
    if not (need_of(trace) or raising):
        return
    try:
        rollback.undo = undo_of(trace, gm, opaque, output)
    except Refused as refused:
        if sites := _blamed(trace):
            raise SiteRefused(refused, *sites) from refused


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
    visible |= {exchange.before.cdata for exchange in recorder.exchanges}
    inference, asked = _made_in_inference_mode(gm), set(_differentiated_for(gm))
    for node, (site, choice) in trace.choices.items():
        try:
            check_choice(choice, choices, changed, visible)
            if not choice.outside.isdisjoint(inference):
                raise Refused("identity-compared", "An inference tensor records no gradients.")
            if not asked.isdisjoint(map(id, tensors_of(node))):
                raise Refused("identity-compared", "A gradient is asked for of one tensor alone.")
            if opaque and choice.outside:
                raise Refused("alias-mutated", f"It may be changed inside {opaque[0].target}.")
            if recorder.strided and choice.outside:
                raise Refused("identity-compared", "as_strided looks at the whole memory.")
            check_inputs_apart(gm, output, choice.outside, written)
        except Refused as refused:
            raise SiteRefused(refused, site) from refused


def _made_in_inference_mode(gm: GraphModule) -> set[int]:
    """The storages of inputs that `inference_mode` made, which their fake tensors do not tell."""
    known = ((node, node.meta.get("grapharg")) for node in filter(is_input, gm.graph.nodes))
    given = ((node, argument.example) for node, argument in known if argument is not None)
    return storages(n for n, t in given if isinstance(t, torch.Tensor) and t.is_inference())


def _differentiated_for(gm: GraphModule) -> Iterator[int]:
    """The tensors for which the graph computes gradients."""
    for node in gm.graph.nodes:
        if node.target is torch.autograd.grad:
            given = _GRADIENTS.bind(*node.args, **node.kwargs).arguments["inputs"]
            ends = [end for end in torch.utils._pytree.tree_leaves(given) if isinstance(end, Node)]
            yield from (id(tensor) for end in ends for tensor in tensors_of(end))


_GRADIENTS = inspect.signature(torch.autograd.grad)


def _blamed(trace: Trace) -> list[Site]:
    """The sites to give up because the graph cannot be rolled back."""
    assert trace.recorder is not None
    fails = trace.used if trace.recorder.rejects else ()
    reasons = [feature.blamed() for feature in trace.obliged(Feature.blamed)]
    candidates = [[speculation.site for speculation, _ in trace.speculations], *reasons, fails]
    return list(dict.fromkeys(next(filter(None, candidates), ())))


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


_OF_ONE_TENSOR = frozenset(("_grad", "_post_accumulate_grad_hooks", "grad"))
"""What a tensor shares with none that is computed from it."""


def check_question(compilation: Compilation, tensor: VariableTracker, name: str) -> None:
    """Refuse questions that a chosen tensor answers otherwise than the tensor eager Python has.

    Attributes that torch does not define are the user's, and stay with the tensor they were set on.

    Args:
        compilation: what is being compiled.
        tensor: what is asked; another one may be a view of a chosen tensor.
        name: of an attribute or a method.

    Raises:
        SiteRefused: the answer could differ.
    """
    if name in _OF_ONE_TENSOR:
        check_identity(compilation, [tensor])
    if name in _TELL_CHOICES_APART or not hasattr(torch.Tensor, name):
        site = next(iter(compilation.trace.choices.values()))[0]
        raise SiteRefused(Refused("identity-compared", f"A tensor is asked for '{name}'."), site)


def check_identity(compilation: Compilation, operands: Iterable[VariableTracker]) -> None:
    """Refuse to say which tensor a chosen one is: eager Python might find it to be an arm's.

    Args:
        compilation: what is being compiled.
        operands: values that are compared by identity, hashed, asked for their id, or given an
            attribute. `y.contiguous()` may be the chosen `y` itself.

    Raises:
        SiteRefused: one operand is such a tensor.
    """
    chosen = compilation.trace.choices.items()
    sites = {id(tensor): site for node, (site, _) in chosen for tensor in tensors_of(node)}
    nodes = [value.as_proxy().node for value in operands if value.is_tensor()]
    for tensor in (tensor for node in nodes for tensor in tensors_of(node)):
        if id(tensor) in sites:
            raise SiteRefused(Refused("identity-compared"), sites[id(tensor)])


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
    nodes = (n for n in gm.graph.nodes if is_in_place(n))
    return list(storages(changed for n in nodes for changed in n.all_input_nodes[:1]))
