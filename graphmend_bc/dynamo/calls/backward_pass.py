"""A backward pass inside a graph, where nobody is told of it and nobody can tell.

Dynamo can trace one as `torch.autograd.grad` (`torch._dynamo.config.trace_autograd_ops`). That is
what eager Python does if no hook waits for a gradient, and if what the graph gives is as separate
as what the operators gave: Inductor returns one tensor for two equal ones, such as the gradients of
`a + b`.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.exc import Unsupported
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.calls.consumed_outputs import (
    ConsumedOutputs,
    freed_by,
    leaf_of,
    reachable,
)
from graphmend_bc.dynamo.calls.gradient_hooks import is_held, is_hooked, is_watched
from graphmend_bc.dynamo.graph.fx_nodes import name_called, tensors_of
from graphmend_bc.dynamo.graph.lambda_guards import value_at
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deoptimise import Deoptimise


@dataclass(slots=True, eq=False)
class BackwardPasses(Feature):
    """The backward passes of an attempt.

    Attributes:
        sites: where they were asked for.
        retains: whether one leaves something for another.
        watched: positions of the graph's inputs that get gradients.
        apart: for each output of the graph that is a tensor, the storage it had while tracing.
    """

    order: ClassVar[int] = 40

    sites: list[Site] = field(default_factory=list)
    retains: bool = False
    watched: tuple[int, ...] = ()
    apart: tuple[int | None, ...] = ()

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.watched = tuple(i for i, node in enumerate(inputs) if _is_leaf(node))
        check_unnoticed(gm.graph.nodes, self.sites)
        if output.side_effects.tensor_hooks:
            raise self._refused("A tensor is given a hook.")
        if _share_memory(_gradients(output), inputs):
            raise self._refused("A gradient shares its memory with another tensor.")
        outputs = cast("Sequence[Any]", gm.graph.output_node().args[0])
        self.apart = tuple(_storage(each) for each in outputs)
        if self.retains and any(_has_history(each) for each in outputs):
            raise self._refused("What is kept for a later pass leaves the graph.")

    def _refused(self, detail: str) -> SiteRefused:
        return SiteRefused(Refused("backward-noticed", detail), *self.sites)

    def on_commit(self, compilation: Compilation) -> bool:
        return True

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _apart(graph, self.apart)

    def guarded(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        return unwatched(graph, self.watched)


def check_unnoticed(nodes: Iterable[Node], sites: Iterable[Site]) -> None:
    """Refuse passes that something tells from eager Python's.

    Args:
        nodes: of the graph that they are in.
        sites: where they were asked for.

    Raises:
        SiteRefused: a node does.
    """
    for node in nodes:
        if detail := _why_noticed(node):
            raise SiteRefused(Refused("backward-noticed", detail), *sites)


def _why_noticed(node: Node) -> str:
    """What of a node tells its graph, with a backward pass in it, from eager Python; else empty."""
    if node.target in _ASKS:
        return f"{node.target} is asked for beside it."
    if node.target is torch.autograd.grad and any(
        each.layout is not torch.strided for each in tensors_of(node)
    ):
        return "A gradient is sparse."
    if name_called(node) == "requires_grad_" and not any(
        each.requires_grad for each in tensors_of(node.all_input_nodes[0])
    ):
        return "A tensor ceases to require a gradient."
    return ""


_ASKS: Final = frozenset({"retain_grad", "register_hook", "register_post_accumulate_grad_hook"})


def has_passed(trace: Trace) -> bool:
    """Whether a backward pass is a part of what was traced so far."""
    known = trace.known(BackwardPasses)
    return known is not None and bool(known.sites)


@dataclass(frozen=True, slots=True)
class Pass:
    """A backward pass that the program asks for.

    Attributes:
        site: where.
        roots: the tensors it starts from.
        ends: those it is for; None if for all leaves.
        retains: whether it leaves what it needs for another.
    """

    site: Site
    roots: Sequence[torch.Tensor]
    ends: Sequence[torch.Tensor] | None = None
    retains: bool = False


def flag(given: VariableTracker | None) -> bool:
    """An argument of a pass that says whether it leaves what it needs for another.

    Args:
        given: what it is called with; None if with nothing.

    Raises:
        Refused: it is no constant.
    """
    if given is None:
        return False
    if not given.realize().is_python_constant():
        raise Refused("backward-noticed", "It is not known if it retains the graph.")
    return bool(given.realize().as_python_constant())


def traced(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    asked: Pass,
    trace: Callable[[], VariableTracker],
) -> VariableTracker:
    """Trace a backward pass as a part of the graph.

    Args:
        tx: translator of the frame that asks for it.
        compilation: what is being compiled.
        asked: the pass.
        trace: Dynamo's way to trace it.

    Returns:
        What `trace` does.

    Raises:
        Refused: something would be told that there is one in a graph.
    """
    _check(tx, compilation, asked)
    check_is_outermost(tx)
    freed = set() if asked.retains else freed_by(asked.roots, asked.ends)
    try:
        with dynamo_config.patch(trace_autograd_ops=True):
            result = trace()
    except Unsupported as error:
        raise Refused("backward-noticed", str(error).partition("\n")[0]) from error
    passes = compilation.trace.of(BackwardPasses)
    passes.sites.append(asked.site)
    passes.retains = passes.retains or asked.retains
    compilation.trace.of(ConsumedOutputs).freed.update(freed)
    return result


def check_recorded(compilation: Compilation) -> None:
    """Show that a pass would be made here, of what is recorded, and that nobody looks on.

    Args:
        compilation: what is being compiled.

    Raises:
        Refused: it is not so, or not known.
    """
    if compilation.is_saved:
        raise Refused("under-export")
    if compilation.trace.arms:  # it need not be, if the way that is taken is traced alone
        refused = Refused("backward-noticed", "It is in an arm that may not be taken.")
        raise SiteRefused(refused, compilation.trace.arms[-1])
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        raise Refused("backward-noticed", "It is called where no gradients are recorded.")
    if why := _why_observed():
        raise Refused("backward-noticed", why)


def _check(tx: InstructionTranslatorBase, compilation: Compilation, asked: Pass) -> None:
    check_recorded(compilation)
    known = {id(_example(leaf.as_proxy().node)) for leaf in tx.output.leaf_var_creation_order}
    for place, variable in tx.output.input_source_to_var.items():
        if isinstance(variable, TensorVariable) and _is_leaf(variable.as_proxy().node):
            known.add(id(_example(variable.as_proxy().node)))
            leaf = value_at(tx, place)
            if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
                raise Refused("backward-noticed", f"{place.name} is of a class of its own.")
            if is_watched(leaf) or (is_held(leaf) and is_hooked(leaf)):
                raise Refused("backward-noticed", f"A hook waits for the gradient of {place.name}.")
    if asked.ends is None and not known >= {id(leaf) for leaf in _leaves(asked)}:
        raise Refused("backward-noticed", "A tensor that gets a gradient was not made here.")


def _leaves(asked: Pass) -> Iterator[torch.Tensor]:
    """The tensors to which a pass adds gradients."""
    for node in reachable(root.grad_fn for root in asked.roots):
        if (leaf := leaf_of(node)) is not None:
            yield leaf


def _why_observed() -> str:
    """What sees the backward passes of this call from outside; empty if nothing does."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return "Processes may exchange gradients as they come."
    if torch.is_anomaly_enabled():
        return "Anomalies are looked for."
    if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
        return "Hooks see what is saved for it."
    return ""


def _example(node: Node) -> object:
    return node.meta.get("example_value")


def _is_leaf(node: Node) -> bool:
    example = _example(node)
    return isinstance(example, torch.Tensor) and example.requires_grad and example.is_leaf


def _storage(value: object) -> int | None:
    tensors = tensors_of(value) if isinstance(value, Node) else []
    dense = [tensor for tensor in tensors if tensor.layout is torch.strided]
    return storage_of(dense[0]) if dense else None


def _gradients(output: OutputGraph) -> Iterator[Node]:
    """The inputs that are gradients of others."""
    for place, variable in output.input_source_to_var.items():
        if getattr(place, "member", "") == "grad" and isinstance(variable, TensorVariable):
            yield variable.as_proxy().node


def _share_memory(some: Iterable[Node], others: Iterable[Node]) -> bool:
    """Whether one of some inputs lies where another one does."""
    places = Counter(place for place in map(_storage, others) if place is not None)
    return any(place is not None and places[place] > 1 for place in map(_storage, some))


def _has_history(value: object) -> bool:
    return isinstance(value, Node) and any(t.grad_fn is not None for t in tensors_of(value))


def unwatched(graph: Callable[..., Any], watched: tuple[int, ...]) -> Callable[..., Any]:
    """The graph of a frame whose original code runs while a hook waits for a gradient."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        if _why_observed() or any(is_watched(args[index]) for index in watched):
            raise Deoptimise
        return graph(*args, **kwargs)

    return run_graph


def _apart(graph: Callable[..., Any], storages: tuple[int | None, ...]) -> Callable[..., Any]:
    """A compiled graph whose results share memory only where those of its operators do."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        results = graph(*args, **kwargs)
        owners: dict[int, int | None] = {}
        separate = list(results)
        for index, (result, storage) in enumerate(zip(results, storages, strict=True)):
            if not isinstance(result, torch.Tensor):
                continue
            memory = result.untyped_storage()._cdata
            if owners.setdefault(memory, storage) != storage:
                separate[index] = result.clone()
        return separate

    return run_graph
