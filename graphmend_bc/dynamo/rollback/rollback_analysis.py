"""Whether a graph can be rolled back, and what has to be remembered for it."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from contextlib import _GeneratorContextManager
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.ctx_manager import GenericContextWrappingVariable
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc import config
from graphmend_bc.code.exception_table import has_handler
from graphmend_bc.dynamo.frames.generated_code import TORCH
from graphmend_bc.dynamo.graph.fx_nodes import (
    input_storages,
    is_in_place,
    last_node,
    name_called,
    sets_a_mode,
    storages,
    tensors_of,
)
from graphmend_bc.dynamo.graph.input_aliasing import Layout
from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.rollback.exchanged_inputs import exchanged_inputs
from graphmend_bc.dynamo.symbols.captures import captured_in, refuse_captured
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import Tally


@dataclass(slots=True, eq=False)
class Rollback(Feature):
    """How the graph can be rolled back, and when it must not be used.

    Attributes:
        undo: how to take the graph back, if that can be done and somebody may want it: a wrong
            speculation, or the effects it would lose by raising.
        layout: how the graph's inputs must share memory when it runs.
        tally: counts the calls of the compiled graph if it can be rolled back.
        handles: whether one of the functions traced may handle an exception that the graph raises.
        leaves_more: whether something is done after the graph, or before it in stock's, that a
            recomputation which stops in the graph would lose.
    """

    undo: StateSnapshot | None = None
    layout: Layout | None = None
    tally: Tally | None = None
    handles: bool = False
    leaves_more: bool = False

    def on_commit(self, compilation: Compilation) -> bool:
        return self.undo is not None or self.layout is not None or self.leaves_more


def note_frame(trace: Trace, code: CodeType) -> None:
    """A graph that raises may be handled by the frame itself, if it is the user's and has a `try`.

    Args:
        trace: the attempt.
        code: the frame's.
    """
    if not code.co_filename.startswith(TORCH) and has_handler(code):
        trace.of(Rollback).handles = True


def note_inlined(trace: Trace, tracer: Any, code: CodeType) -> None:
    """A graph that raises may be handled by a callee, if operators of the graph are its own.

    What a manager does in the end, and a generator, stand around operators of others.

    Args:
        trace: the attempt.
        tracer: of the callee.
        code: the callee's, as it was written.
    """
    if code.co_filename.startswith(TORCH):
        return
    ends = _ends_block(tracer, code)
    if not (ends or has_handler(code)) or code in _LEFT_TO_GENERATORS:
        return
    rollback = trace.of(Rollback)
    if ends or code.co_flags & _SUSPENDS:
        rollback.handles = True
        return
    graph, run, before = tracer.output.graph, tracer.run, last_node(tracer.output.graph)

    def noting() -> None:
        del tracer.run  # which would keep the tracer alive
        try:
            run()
        finally:
            rollback.handles = rollback.handles or last_node(graph) is not before

    tracer.run = noting


def _ends_block(tracer: Any, code: CodeType) -> bool:
    """True for what a context manager's class, which is not one of torch's, does in the end."""
    first = next(iter(tracer.symbolic_locals.values()), None)
    manager = first.cm_obj if isinstance(first, GenericContextWrappingVariable) else None
    exits = getattr(type(manager), "__exit__", None)
    return code.co_name == "__exit__" or getattr(exits, "__code__", None) is code


_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

_LEFT_TO_GENERATORS = frozenset(
    vars(_GeneratorContextManager)[name].__code__ for name in ("__enter__", "__exit__")
)
"""They give an exception to the manager's generator, which is traced as well."""


def need_of(trace: Trace) -> RollbackNeed:
    """Whether something may come to light that makes the graph useless."""
    needs = [feature.rolls_back() for feature in trace.obliged(Feature.rolls_back)]
    if trace.speculations:
        needs.append(RollbackNeed.WORTH_COPIES)
    if trace.effects:
        needs.append(RollbackNeed.IF_FREE)
    return max(needs, default=RollbackNeed.NOT_NEEDED)


def undo_of(
    trace: Trace, gm: GraphModule, opaque: list[Node], output: OutputGraph
) -> StateSnapshot:
    """How nothing is left of a graph when its results are thrown away.

    Args:
        trace: of the frame that the graph is of.
        gm: the graph.
        opaque: its higher-order operators that are not ours.
        output: Dynamo's, which has made it.

    Raises:
        Refused: something would be left.
    """
    recorder = trace.recorder
    assert recorder is not None
    if recorder.foreign is not None:
        raise Refused("speculation-has-effects", f"The operator is {recorder.foreign}.")
    inputs = input_storages(gm.graph)
    for node in opaque:
        if not _leaves_nothing(gm, node, inputs):
            raise Refused("speculation-has-effects", f"The operator is {node.target}.")
    for op in recorder.guarded.values():
        raise Refused("speculation-guards-index", f"The operator is {op}.")
    if output.random_calls:
        raise Refused("speculation-has-effects", "Python's own generator is drawn from.")
    _check_nodes(recorder, gm, inputs)
    if any(device.type not in ("cpu", "cuda") for device in recorder.draws):
        raise Refused("speculation-has-effects", "The device's generator cannot be reset.")
    captured = captured_in(trace)
    if captured and recorder.squeezed:
        refuse_captured("It depends on such a size how many dimensions there are.")
    if captured and recorder.unsized:
        raise Refused("capture-fails", "A write in place may fail for such a size.")
    # The graph's inputs are copied in every call, which is worth while only if it may raise.
    needed = need_of(trace) is RollbackNeed.WORTH_COPIES or trace.of(Rollback).handles
    needed = needed or recorder.checks
    if not needed and not inputs.isdisjoint(recorder.written):
        raise Refused("speculation-writes-input", "It is not known to raise.")
    exchanged = exchanged_inputs(recorder, gm)
    changed = [p for p in _written_inputs(recorder, gm, output.export) if p not in exchanged]
    draws, switches = tuple(recorder.draws), _calls(gm, _SWITCHES)
    return StateSnapshot(tuple(changed), draws, switches, tuple(exchanged))


def _check_nodes(recorder: Recorder, gm: GraphModule, inputs: set[int]) -> None:
    """Refuse operators that change more than values, and switches of modes."""
    for node in gm.graph.nodes:
        name = name_called(node)
        harmless = name == "requires_grad_" and _is_made_there(node, inputs)
        if is_in_place(node) and name in _CHANGE_MORE_THAN_VALUES and not harmless:
            raise Refused("speculation-has-effects", f"The operator is {name}.")
        if sets_a_mode(node):
            raise Refused("speculation-has-effects", f"It calls {name}.")


def _is_made_there(node: Node, inputs: set[int]) -> bool:
    """Whether what a node changes is not a tensor that the graph is given or holds."""
    changed = node.all_input_nodes[0]
    if name_called(changed) == "detach":
        return True
    return inputs.isdisjoint(map(storage_of, tensors_of(changed)))


def modes_of(gm: GraphModule, output: OutputGraph) -> StateSnapshot | None:
    """How the modes are put back that a graph switches for a while, if it raises meanwhile.

    Args:
        gm: a graph that is not rolled back.
        output: Dynamo's, which has made it.

    Returns:
        None if it switches none, or leaves them switched: those are the program's to put back.
    """
    switches = _calls(gm, _SWITCHES)
    if not (switches or _calls(gm, {"_set_grad_enabled"})):
        return None
    _, grad = output.tracing_context.global_context.global_state["grad_enabled"]
    return StateSnapshot(switches=switches) if grad == torch.is_grad_enabled() else None


def _calls(gm: GraphModule, names: Collection[str]) -> bool:
    return any(name_called(node) in names for node in gm.graph.nodes)


def _written_inputs(recorder: Recorder, gm: GraphModule, exports: bool) -> tuple[int, ...]:
    """Positions of inputs whose memory the graph changes, or changed in the call that is traced."""
    written, found = set(recorder.written), list[int]()
    sizes = dict[int, int | torch.SymInt]()
    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    if written & storages(node for node in gm.graph.nodes if node.op == "get_attr"):
        raise Refused("speculation-writes-input", "It is no argument of the graph.")
    for position, node in enumerate(inputs):
        tensor = node.meta.get("example_value")
        if not isinstance(tensor, torch.Tensor) or storage_of(tensor) not in written:
            continue
        if type(tensor) is not FakeTensor or has_history(tensor):
            raise Refused("speculation-writes-input", "The write has an autograd history.")
        found.append(position)
        sizes[storage_of(tensor)] = tensor.untyped_storage().nbytes()
    _check_size(sum(sizes.values()), exports)
    return tuple(found)


def has_history(tensor: torch.Tensor) -> bool:
    """Whether a tensor was computed from one that requires a gradient.

    Args:
        tensor: of a graph that was traced; of an input it is what it was before, or what a write
            has added.
    """
    try:
        return tensor.grad_fn is not None
    except RuntimeError:  # one of several views, whose base was changed: torch makes no new history
        return True


def _check_size(size: int | torch.SymInt, exports: bool) -> None:
    """Refuse to copy too many bytes; how many a dynamic size makes of them is guarded."""
    if isinstance(size, torch.SymInt):
        if exports or free_unbacked_symbols(size):
            raise Refused("speculation-writes-input", "Its size is not known.")
        most = size.node.shape_env.bound_sympy(size.node.expr).upper
        # A bound is the user's, who marked the dimension; a guard must not make it narrower.
        size = int(most) if most.is_Integer else size
    if size > config.snapshot_limit:
        what = f"Its {size} bytes are" if isinstance(size, int) else "It is"
        raise Refused(
            "speculation-writes-input",
            f"{what} more than config.snapshot_limit, {config.snapshot_limit}.",
        )


def _leaves_nothing(gm: GraphModule, node: Node, inputs: set[int]) -> bool:
    """True for a higher-order operator that is gone with its results.

    `autograd_function_apply` does nothing but run the operators that were recorded inside it, nor
    does a checkpoint without a context of the user's. A hook stays with its tensor, which may be an
    input: `x.contiguous()` is often `x`.
    """
    name, given = name_called(node), node.all_input_nodes
    if name == "tag_activation_checkpoint":
        body = getattr(gm, str(given[0].target), None)
        return isinstance(body, GraphModule) and "_checkpoint_context_fn" not in body.meta
    if name == "register_hook":
        return storages(given[:1]).isdisjoint(inputs)
    return name == "autograd_function_apply"


_SWITCHES = frozenset(("_enter_autocast", "_exit_autocast", "_sdpa_kernel"))

_CHANGE_MORE_THAN_VALUES = frozenset(
    (
        "as_strided_",
        "detach_",
        "rename_",
        "requires_grad_",
        "resize_",
        "resize_as_",
        "share_memory_",
        "squeeze_",
        "swapaxes_",
        "swapdims_",
        "t_",
        "transpose_",
        "unsqueeze_",
    )
)
