"""Gradients that a function computes of tensors, and uses or returns: `torch.autograd.grad`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import BaseListVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.backward_pass import Pass, flag, traced
from graphmend_bc.dynamo.calls.inner_passes import traced_inside
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.tracing import backward_around
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_SIGNATURE = inspect.signature(torch.autograd.grad)


def _differentiated(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    if function is not torch.autograd.grad or not facts.TRACES_BACKWARD:
        return None
    try:
        given = _SIGNATURE.bind(*args, **kwargs).arguments
    except TypeError:  # eager Python raises it
        return None
    retains = any(flag(given.get(name)) for name in ("retain_graph", "create_graph"))
    asked = Pass(
        callee.site, list(_tensors(given["outputs"])), list(_tensors(given["inputs"])), retains
    )

    def trace() -> VariableTracker:
        return callee.callee.call_function(tx, args, kwargs)

    if (around := backward_around(tx)) is not None:
        return traced_inside(tx, callee.compilation, around[0], asked, trace)
    return traced(tx, callee.compilation, asked, trace)


def _tensors(given: VariableTracker) -> Iterator[torch.Tensor]:
    given = given.realize()
    for each in given.items if isinstance(given, BaseListVariable) else [given]:
        tensor = each.realize()
        if type(tensor) is not TensorVariable:
            raise Refused("backward-noticed", "It is asked for gradients of what is no tensor.")
        yield tensor.as_proxy().node.meta["example_value"]


def _named_grad(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.callee == "grad" and site.gb_type else None


GRADIENTS = Rule(
    "gradients",
    "train",
    15,
    _named_grad,
    frozenset({"using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`"}),
    handler=known_call("train", _differentiated),
)
"""`torch.autograd.grad` is a part of the graph, if no hook is told of it."""

RULES = (GRADIENTS,)
