"""`loss.backward()` inside a graph, and the optimizer's step that follows it there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import torch
from torch._dynamo.decorators import mark_static_address
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import get_static_address_type
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.optimizer import OptimizerVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords
from graphmend_bc.dynamo.calls.backward_pass import Pass, flag, traced
from graphmend_bc.dynamo.calls.trained_parameters import TrainedParameters
from graphmend_bc.dynamo.graph.backends import is_inductor
from graphmend_bc.dynamo.graph.cuda_graphs import records_cuda_graphs
from graphmend_bc.dynamo.graph.emit import method
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_NONE: Final = ConstantVariable.create(None)
"""The only one that Dynamo has. Up to torch 2.14 a gradient that is None gives it a place, where
generated code would look for None from then on, in other frames too."""


@dataclass(slots=True, eq=False)
class ClearedGradients(Feature):
    """Calls of `zero_grad` that an attempt traced.

    Attributes:
        sites: of the calls.
    """

    sites: list[Site] = field(default_factory=list)


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
        SiteRefused: as before, and gradients were cleared in the graph before. Without the pass
            the graph would depend on whether there are any.
    """
    example = loss.as_proxy().node.meta["example_value"]
    if not facts.TRACES_BACKWARD or not example.requires_grad:
        return None
    try:
        if records_cuda_graphs(tx, loss):
            raise Refused("backward-noticed", "Gradients would lie in a CUDA graph's memory.")
        asked = Pass(site, [example], retains=_retains(args, kwargs))
        traced(tx, compilation, asked, lambda: loss.call_method(tx, "backward", [], kwargs))
    except Refused as refused:
        cleared = compilation.trace.known(ClearedGradients)
        if cleared is not None:
            raise SiteRefused(refused, site, *cleared.sites) from refused
        raise
    finally:
        _NONE.source = None
    compilation.trace.of(TrainedParameters)
    compilation.trace.kept += map(partial(method, tx, "detach"), _pending_gradients(tx))
    return _NONE


def _retains(args: Args, kwargs: Keywords) -> bool:
    """Whether a pass keeps what it needs for another."""
    if args or kwargs.keys() - {"retain_graph"}:
        raise Refused("backward-noticed", "It is called with arguments.")
    return flag(kwargs.get("retain_graph"))


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


def original_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that torch has wrapped so that Dynamo does not trace it."""
    found: Callable[..., Any] = getattr(function, "__wrapped__", function)
    return found


def as_an_object(tx: InstructionTranslatorBase, optimizer: VariableTracker) -> None:
    """Trace an optimizer as any other object of a class written in Python.

    Dynamo's own variable runs the lookup of groups while it traces, which would find the gradients
    of an earlier call, and holds parameters as constants of the graph, which get no gradients.

    Args:
        tx: translator of a frame that uses it.
        optimizer: what a trace holds for it.
    """
    optimizer = optimizer.realize()
    if type(optimizer) is not OptimizerVariable:
        return
    if (compilation := current()) is not None:
        compilation.trace.of(TrainedParameters)
    for group in optimizer.value.param_groups:
        for parameter in group["params"]:
            # Dynamo marks it when it compiles a step alone; graphs hold what is marked so.
            if get_static_address_type(parameter) == "guarded":
                mark_static_address(parameter, guard=False)
    if id(optimizer.value) not in tx.output.side_effects.id_to_variable:
        tx.output.side_effects.track_object_existing(optimizer.value, optimizer)
    cast(Any, optimizer).__class__ = UserDefinedObjectVariable


@dataclass(slots=True, eq=False)
class CapturableSteps(Feature):
    """The optimizers in whose steps an attempt is.

    Attributes:
        former: by optimizer, what its groups have held as `capturable` before; None for nothing.
        counted: those whose numbers of steps are no tensors, with where the step begins.
    """

    former: dict[int, list[tuple[Any, VariableTracker | None]]] = field(default_factory=dict)
    counted: dict[int, Site] = field(default_factory=dict)


def counted_step(trace: Trace) -> Site | None:
    """Where the step begins that an attempt is in, if its number is to be read from its tensors.

    Args:
        trace: the attempt.
    """
    steps = trace.known(CapturableSteps)
    return None if steps is None else next(reversed(steps.counted.values()), None)


def begin_or_end_step(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    optimizer: VariableTracker,
    *,
    may_count: bool,
) -> None:
    """Have the numbers of an optimizer's steps be tensors of its graph in a step, as stock does.

    They are none where they can be read before the graph, as eager Python reads them.

    What its groups hold is what it was behind the step: the program may write to them there.

    Args:
        tx: translator of the frame that takes the step.
        compilation: what is being compiled.
        site: where it begins or ends.
        optimizer: what a trace holds for it.
        may_count: whether they may be read before the graph.
    """
    known = cast(OptimizerVariable, optimizer)
    steps, name = compilation.trace.of(CapturableSteps), id(known.value)
    if steps.counted.pop(name, None) is not None:
        return
    if name in steps.former:
        for group, value in steps.former.pop(name):
            if value is None:
                del group.items[_capturable(group)]
            else:
                group.items[_capturable(group)] = value
        return
    may_count = may_count and not (tx.export or compilation.is_saved)
    if may_count and _counts_exactly(known.value, tx.output.compiler_fn):
        steps.counted[name] = site
        return
    source = known.source and AttrSource(known.source, "param_groups")
    made = VariableTracker.build(tx, known.value.param_groups, source)
    groups = cast(Any, LazyVariableTracker.realize_all(made)).items
    steps.former[name] = [(group, group.items.get(_capturable(group))) for group in groups]
    OptimizerVariable._set_capturable(known, tx)


def _counts_exactly(optimizer: Any, compiler_fn: object) -> bool:
    """Whether a step's number can be one of Python's, and nothing computed with it raises.

    Inductor's kernels round otherwise than eager Python anyhow.
    """
    return (
        type(optimizer) in _COUNTING
        and not is_inductor(compiler_fn)
        and all(map(_is_plain, optimizer.param_groups))
    )


def _is_plain(group: Mapping[str, Any]) -> bool:
    """Whether a group of parameters is on the CPU, with numbers by which no step divides by 0.

    A decay of 0 makes nothing of a step's number, which sympy knows.
    """
    betas = group.get("betas", ())
    return (
        group.get("lr_decay", 1) > 0
        and all(type(beta) is float and 0 <= beta < 1 for beta in betas)
        and not any(group.get(name) for name in ("capturable", "differentiable", "foreach"))
        and all(parameter.device.type == "cpu" for parameter in group["params"])
    )


_COUNTING: Final = frozenset(
    getattr(torch.optim, name) for name in ("Adagrad", "Adam", "AdamW", "Adamax", "RAdam")
)
"""Optimizers that read nothing but the number of steps."""


def _capturable(group: Any) -> Any:
    """The key in a trace's form of a group of parameters; None if it has none."""
    return next((key for key in group.items if _is_named(key.vt, "capturable")), None)


def _is_named(key: VariableTracker, name: str) -> bool:
    return key.is_python_constant() and key.as_python_constant() == name
