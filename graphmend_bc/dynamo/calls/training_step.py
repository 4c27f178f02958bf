"""`loss.backward()` inside a graph, and the optimizer's step that follows it there.

Dynamo can trace `backward` as `torch.autograd.grad` and additions to `.grad`
(`torch._dynamo.config.trace_autograd_ops`). That is what eager Python does if each gradient goes to
a parameter or an input that nobody watches, and if what the graph gives is as separate as what the
operators gave: Inductor returns one tensor for two equal ones, such as the gradients of `a + b`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final, cast

import torch
from torch._dynamo import config as dynamo_config
from torch._dynamo.exc import Unsupported
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.optimizer import OptimizerVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch._guards import Source
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords
from graphmend_bc.dynamo.graph.cuda_graphs import records_cuda_graphs
from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.graph.fx_nodes import tensors_of
from graphmend_bc.dynamo.graph.lambda_guards import reader
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deoptimise import Deoptimise

_NONE: Final = ConstantVariable.create(None)
"""The only one that Dynamo has. Up to torch 2.14 a gradient that is None gives it a place, where
generated code would look for None from then on, in other frames too."""


@dataclass(slots=True, eq=False)
class AccumulatedGradients(Feature):
    """The backward passes of an attempt.

    Attributes:
        sites: where they were asked for.
        watched: positions of the graph's inputs whose gradients were accumulated.
        apart: for each output of the graph that is a tensor, the storage it had while tracing.
    """

    order: ClassVar[int] = 40

    sites: list[Site] = field(default_factory=list)
    watched: tuple[int, ...] = ()
    apart: tuple[int | None, ...] = ()

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.watched = tuple(i for i, node in enumerate(inputs) if _is_leaf(node))
        for node in gm.graph.nodes:
            if node.target is torch.autograd.grad or node.target in _ASKS:
                self._check(node)
        (end,) = (node for node in gm.graph.nodes if node.op == "output")
        self.apart = tuple(_storage(each) for each in cast("Sequence[Any]", end.args[0]))

    def _check(self, node: Node) -> None:
        if node.target in _ASKS:
            raise self._refused(f"{node.target} is asked for beside it.")
        if any(each.layout is not torch.strided for each in tensors_of(node)):
            raise self._refused("A gradient is sparse.")

    def _refused(self, detail: str) -> SiteRefused:
        return SiteRefused(Refused("backward-noticed", detail), *self.sites)

    def on_commit(self, compilation: Compilation) -> bool:
        return True

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _apart(graph, self.apart)

    def guarded(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        return _unwatched(graph, self.watched)


_ASKS: Final = frozenset({"retain_grad", "register_hook", "register_post_accumulate_grad_hook"})


def has_accumulated(trace: Trace) -> bool:
    """Whether a backward pass is a part of what was traced so far."""
    known = trace.known(AccumulatedGradients)
    return known is not None and bool(known.sites)


def accumulate(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    loss: TensorVariable,
    args: Args,
    kwargs: Keywords,
) -> VariableTracker | None:
    """The value of `loss.backward(...)`, which adds to gradients in the graph.

    Args:
        tx: translator of the frame that calls it.
        compilation: what is being compiled.
        site: where.
        loss: the tensor.
        args, kwargs: what it is called with.

    Returns:
        None if this torch cannot trace it, or eager Python raises.

    Raises:
        Refused: something would be told that gradients are accumulated in a graph.
    """
    example = loss.as_proxy().node.meta["example_value"]
    if not facts.TRACES_BACKWARD or not example.requires_grad:
        return None
    if records_cuda_graphs(tx, loss):
        raise Refused("backward-noticed", "Gradients would lie where the next CUDA graph writes.")
    _check(tx, compilation, example, args, kwargs)
    check_is_outermost(tx)
    try:
        with dynamo_config.patch(trace_autograd_ops=True):
            result = loss.call_method(tx, "backward", [], {})
    except Unsupported as error:
        raise Refused("backward-noticed", str(error).partition("\n")[0]) from error
    finally:
        _NONE.source = None
    compilation.trace.of(AccumulatedGradients).sites.append(site)
    compilation.trace.kept += map(partial(method, tx, "detach"), _pending_gradients(tx))
    return result


def _pending_gradients(tx: InstructionTranslatorBase) -> list[TensorVariable]:
    """Gradients that are set after the graph, as far as is known yet.

    As outputs of the graph they are used more than once. Else Inductor makes one operator of the
    product that gives a gradient and the addition of the optimizer, and up to torch 2.14 forgets
    the factor of the addition (`w.add_(a @ b, alpha=-0.1)`).
    """
    effects = tx.output.side_effects
    leaves = [v for v in tx.output.input_source_to_var.values() if isinstance(v, TensorVariable)]
    pending = [leaf for leaf in leaves if effects.has_pending_mutation_of_attr(leaf, "grad")]
    found = [effects.load_attr(leaf, "grad") for leaf in pending]
    return [gradient for gradient in found if isinstance(gradient, TensorVariable)]


def _check(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    loss: torch.Tensor,
    args: Args,
    kwargs: Keywords,
) -> None:
    if compilation.is_saved:
        raise Refused("under-export")
    if args or kwargs:
        raise Refused("backward-noticed", "It is called with arguments.")
    if compilation.trace.arms:
        raise Refused("backward-noticed", "It is in an arm that may not be taken.")
    if not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        raise Refused("backward-noticed", "It is called where no gradients are recorded.")
    if _is_distributed():
        raise Refused("backward-noticed", "Processes may exchange gradients as they come.")
    known, root = dict[int, Source](), tx.output.root_tx
    for place, variable in tx.output.input_source_to_var.items():
        if isinstance(variable, TensorVariable) and _is_leaf(variable.as_proxy().node):
            known[id(variable.as_proxy().node.meta["example_value"])] = place
            (leaf,) = reader([place])(root.f_locals, root.f_globals)
            if type(leaf) not in (torch.Tensor, torch.nn.Parameter):
                raise Refused("backward-noticed", f"{place.name} is of a class of its own.")
            if _is_watched(leaf) or _is_held(leaf):
                raise Refused("backward-noticed", f"A hook waits for the gradient of {place.name}.")
    if not known.keys() >= {id(leaf) for leaf in _leaves(loss)}:
        raise Refused("backward-noticed", "A tensor that gets a gradient is no input of the graph.")


def _leaves(loss: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensors to which a backward pass adds gradients."""
    seen, left = set[object](), [loss.grad_fn]
    while left:
        if (node := left.pop()) is None or node in seen:
            continue
        seen.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        left += [following for following, _ in node.next_functions]


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _is_watched(leaf: torch.Tensor) -> bool:
    """Whether somebody is told when a gradient of a leaf comes."""
    return bool(leaf._backward_hooks or leaf._post_accumulate_grad_hooks)


def _is_held(leaf: torch.Tensor) -> bool:
    """Whether somebody holds the node that adds to a leaf's gradient, which may have hooks.

    It lives as long as it is held, by a graph or by who has given it a hook, and tells nobody of
    its hooks. What is noted on it is there again only if it lives.
    """
    _accumulator(leaf).metadata[_NOTE] = True
    return _accumulator(leaf).metadata.pop(_NOTE, False) is True


_NOTE: Final = "graphmend_bc"


def _accumulator(leaf: torch.Tensor) -> Any:
    with torch.enable_grad():
        of_view: Any = leaf.view_as(leaf).grad_fn
    return of_view.next_functions[0][0]


def _is_leaf(node: Node) -> bool:
    example = node.meta.get("example_value")
    return isinstance(example, torch.Tensor) and example.requires_grad and example.is_leaf


def _storage(value: object) -> int | None:
    found = next(iter(tensors_of(value)), None) if isinstance(value, Node) else None
    return None if found is None else storage_of(found)


def _unwatched(graph: Callable[..., Any], watched: tuple[int, ...]) -> Callable[..., Any]:
    """The graph of a frame whose original code runs while a hook waits for a gradient."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        if _is_distributed() or any(_is_watched(args[index]) for index in watched):
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


def original_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that torch has wrapped so that Dynamo does not trace it."""
    found: Callable[..., Any] = getattr(function, "__wrapped__", function)
    return found


def as_an_object(optimizer: VariableTracker) -> None:
    """Trace an optimizer as any other object of a class written in Python.

    Dynamo's own variable runs the lookup of groups while it traces, which would find the gradients
    of an earlier call, and holds parameters as constants of the graph, which get no gradients.

    Args:
        optimizer: what a trace holds for it.
    """
    optimizer = optimizer.realize()
    if type(optimizer) is OptimizerVariable:
        cast(Any, optimizer).__class__ = UserDefinedObjectVariable


def set_capturable(tx: InstructionTranslatorBase, optimizer: VariableTracker) -> None:
    """Have the numbers of an optimizer's steps be tensors of its graph, as stock does.

    Args:
        tx: translator of the frame that takes the step.
        optimizer: what a trace holds for it.
    """
    OptimizerVariable._set_capturable(cast(OptimizerVariable, optimizer), tx)
