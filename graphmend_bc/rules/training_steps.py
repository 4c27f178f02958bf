"""A training step: `optimizer.zero_grad()`, `loss.backward()` and `optimizer.step()`."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection
from types import CellType, CodeType, FunctionType
from typing import Any, Final, cast

import torch
from torch._dynamo.source import AttrSource, GetItemSource, OptimizerSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.optim import Optimizer, lr_scheduler, optimizer

from graphmend_bc import config
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.before_graph.step_numbers import number_of_steps
from graphmend_bc.dynamo.calls.backward_pass import has_passed
from graphmend_bc.dynamo.calls.callees import owner_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.calls.training_step import (
    ClearedGradients,
    accumulate,
    as_an_object,
    begin_or_end_step,
    counted_step,
    original_of,
)
from graphmend_bc.dynamo.graph.lambda_guards import value_at
from graphmend_bc.dynamo.trace.compilation import SiteRefused
from graphmend_bc.dynamo.trace.tracing import inline
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import calls_named
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
    may_count = COUNTED.name not in config.rules_off
    begin_or_end_step(tx, callee.compilation, callee.site, owner, may_count=may_count)
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
    if method is None or method is not getattr(owner.python_type(), "_init_group", None):
        return None
    original = original_of(cast(Any, method))
    if not str(original.__module__).startswith("torch.optim."):  # the program's own wish
        return None
    return inline(tx, original, owner, *args, **kwargs)


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
    source, cells = callee.callee.realize().source, _cells_of_wrapper(function)
    if not (isinstance(source, AttrSource) and isinstance(source.base, OptimizerSource)):
        return None
    if cells is None:
        return None
    optimizer, told = value_at(tx, source.base), cells["opt_ref"]
    if told.cell_contents() is not optimizer:  # it was given the method of another
        return None
    known, step = weakref.ref(optimizer), weakref.ref(cast(FunctionType, function))

    def is_wrapped() -> bool:
        owner = known()
        return vars(owner).get("step") is step() and told.cell_contents() is owner

    guard_on(f"step of {id(optimizer)}", is_wrapped, True)
    owner = VariableTracker.build(tx, optimizer, source.base.base)
    as_an_object(tx, owner)
    inline(tx, _note_called, owner)
    # What decorators of the step have closed over is found, and changed, where it is.
    cell = GetItemSource(AttrSource(source, "__closure__"), [*cells].index("func"))
    wrapped = AttrSource(cell, "cell_contents")
    taken = VariableTracker.build(tx, cells["func"].cell_contents, wrapped)
    result: VariableTracker = taken.call_function(tx, [owner, *args], kwargs)
    return result


def _cells_of_wrapper(function: object) -> dict[str, CellType] | None:
    """What a scheduler's wrapper around an optimizer's step has closed over, in its order."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != lr_scheduler.__file__ or code.co_name != "wrapper":
        return None
    cells = zip(code.co_freevars, cast(FunctionType, function).__closure__ or (), strict=True)
    found = dict(cells)
    return found if found.keys() == {"func", "opt_ref"} else None


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


def _reads(code: CodeType) -> Collection[int]:
    """The calls of torch's function that reads numbers of steps, where it is compiled and not."""
    if code is not optimizer._get_value.__code__:
        return ()
    return calls_named(code, _READING)


_READING: Final = frozenset({"is_compiling", "item"})


def _counted(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What is read of a tensor of steps; that nothing is compiled, so that it is read."""
    trace = callee.compilation.trace
    if (begun := counted_step(trace)) is None:
        return None
    if function is torch.compiler.is_compiling:
        return ConstantVariable.create(False)
    tensor = tx.symbolic_locals["x"].realize()
    try:
        return number_of_steps(tx, trace, begun, tensor)
    except Refused as refused:
        raise SiteRefused(refused, begun) from refused


COUNTED = Rule(
    "step-number",
    "train",
    17,
    lambda site: {site.offset: MarkCallee(in_order=False)} if _reads(site.code) else None,
    handler=known_call("train", _counted),
    expects=_reads,
)
"""The number of an optimizer's steps is read before the graph, as eager Python reads it."""

RULES = (ZERO_GRAD, BACKWARD, STEP, GROUPS, SCHEDULED, COUNTED)
