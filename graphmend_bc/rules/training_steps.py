"""A training step: `optimizer.zero_grad()`, `loss.backward()` and `optimizer.step()`."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, cast

import torch
from torch._dynamo.source import AttrSource, OptimizerSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.optim import Optimizer, lr_scheduler, optimizer

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.calls.backward_pass import has_passed
from graphmend_bc.dynamo.calls.callees import owner_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.calls.training_step import (
    ClearedGradients,
    accumulate,
    as_an_object,
    original_of,
    set_capturable,
)
from graphmend_bc.dynamo.graph.lambda_guards import value_at
from graphmend_bc.dynamo.trace.tracing import inline
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _called(name: str) -> Callable[[BreakSite], Rewrites | None]:
    """Matches calls of what was loaded under a name."""

    def matches(site: BreakSite) -> Rewrites | None:
        return {site.offset: MarkCallee(in_order=False)} if site.callee == name else None

    return matches


def _zeroed(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    method = getattr(function, "__func__", None)
    owner = owner_of(callee.callee)
    if owner is None or method is not Optimizer.zero_grad or not facts.TRACES_BACKWARD:
        return None
    as_an_object(tx, owner)
    callee.compilation.trace.of(ClearedGradients).sites.append(callee.site)
    if not (args or kwargs) and hasattr(cast(Any, owner).value, "_zero_grad_profile_name"):
        return inline(tx, _forget_gradients, owner)
    return inline(tx, original_of(method), owner, *args, **kwargs)


def _forget_gradients(optimizer: Any) -> None:
    """Traced by Dynamo: `zero_grad()` without a question that would be guarded on."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


ZERO_GRAD = Rule(
    "zero-grad",
    "train",
    11,
    _called("zero_grad"),
    frozenset({"Attempted to inline function marked as skipped"}),
    handler=known_call("train", _zeroed),
)
"""`optimizer.zero_grad()` is traced, although torch marks it as not to be."""


def _differentiated(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    read = facts.method_read(callee.callee.realize())
    if read is None or read[1] != "backward":
        return None
    loss = read[0].realize()
    if type(loss) is not TensorVariable:
        return None
    return accumulate(tx, callee.compilation, callee.site, loss, args, kwargs)


def _named_backward(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.callee == "backward" else None


BACKWARD = Rule(
    "backward",
    "train",
    12,
    _named_backward,
    frozenset({"Unsupported Tensor.backward() call"}),
    handler=known_call("train", _differentiated),
)
"""`loss.backward()` is a part of the graph, if only parameters and inputs get gradients by it."""


def _unbroken(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    # Dynamo is told to break there, so that it is left to Dynamo for all other rules.
    called = getattr(callee.callee.realize(), "value", None)
    if called is not torch._dynamo.graph_break or not has_passed(callee.compilation.trace):
        return None
    owner = tx.symbolic_locals["self"].realize()
    set_capturable(tx, owner)
    as_an_object(tx, owner)
    result: VariableTracker = ConstantVariable.create(None)
    return result


def _in_step(site: BreakSite) -> Rewrites | None:
    code = site.code
    is_step = code.co_name == "_use_grad" and code.co_filename == optimizer.__file__
    return {site.offset: MarkCallee(in_order=False)} if is_step else None


STEP = Rule(
    "optimizer-step",
    "train",
    13,
    _in_step,
    frozenset({"Call to `torch._dynamo.graph_break()`"}),
    handler=known_call("train", _unbroken),
)
"""`optimizer.step()` goes on in the graph that computed the gradients."""


def _grouped(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    method, owner = getattr(function, "__func__", None), owner_of(callee.callee)
    if owner is None or not has_passed(callee.compilation.trace):
        return None
    kind: Any = owner.python_type()
    if method is None or method is not getattr(kind, "_init_group", None):
        return None
    return inline(tx, original_of(kind._init_group), owner, *args, **kwargs)


GROUPS = Rule(
    "optimizer-groups",
    "train",
    14,
    _called("_init_group"),
    frozenset({"Skip inlining `torch.compiler.disable()`d function"}),
    handler=known_call("train", _grouped),
)
"""What an optimizer keeps for each parameter is looked up in the graph of its gradients."""


def _scheduled(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != lr_scheduler.__file__ or code.co_name != "wrapper":
        return None
    source = callee.callee.realize().source
    held = inspect.getclosurevars(cast(FunctionType, function)).nonlocals
    if held.keys() != {"func", "opt_ref"} or not (
        isinstance(source, AttrSource) and isinstance(source.base, OptimizerSource)
    ):
        return None
    optimizer = value_at(tx, source.base)
    if held["opt_ref"]() is not optimizer:  # it was given the method of another
        return None
    known, step = weakref.ref(optimizer), weakref.ref(cast(FunctionType, function))

    def is_wrapped() -> bool:
        return vars(known()).get("step") is step()

    guard_on(f"step of {id(optimizer)}", is_wrapped, True)
    owner = VariableTracker.build(tx, optimizer, source.base.base)
    as_an_object(tx, owner)
    inline(tx, _note_called, owner)
    return inline(tx, held["func"], owner, *args, **kwargs)


def _note_called(optimizer: Any) -> None:
    """Traced by Dynamo: what a scheduler's wrapper does besides taking the step."""
    optimizer._opt_called = True


SCHEDULED = Rule(
    "scheduled-step",
    "train",
    16,
    _called("step"),
    frozenset({"Attempted to call function marked as skipped"}),
    handler=known_call("train", _scheduled),
)
"""`optimizer.step()` is traced where a scheduler of learning rates has wrapped it to see that it
was called."""

RULES = (ZERO_GRAD, BACKWARD, STEP, GROUPS, SCHEDULED)
