"""`m.zero.requires_grad_()`, where the tensor is there before the call and stays.

Its flag is no part of a graph, and once it is set the same call does nothing. So the call of the
frame that sets it runs as it is, and what is compiled afterwards finds it set.
"""

from __future__ import annotations

from torch._dynamo.source import LocalSource
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.compilation import CallLeft
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.enum_texts import method_read
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_NAME = "requires_grad_"


def _flagged(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """Leave the call of the frame, if the tensor is one of an object, and will be set by it."""
    tensor, name = method_read(callee.callee.realize())
    if name != _NAME or not isinstance(tensor, TensorVariable) or kwargs or len(args) > 1:
        return None
    if tensor.source is None or isinstance(tensor.source, LocalSource):
        return None
    if not all(arg.realize().is_python_constant() for arg in args):
        return None
    value = args[0].realize().as_python_constant() if args else True
    changes = tensor.as_proxy().node.meta["example_value"].requires_grad is not value
    if changes and callee.compilation.leaves and not callee.compilation.trace.arms:
        raise CallLeft(callee.site)
    return None


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.gb_type and site.callee == _NAME else None


FLAG = Rule(
    "gradient-flag",
    "leaf",
    9,
    _matches,
    frozenset({"Unsupported Tensor.requires_grad_() call"}),
    handler=known_call("leaf", _flagged),
)
"""The call in which a tensor of an object comes to require a gradient runs as it is."""

RULES = (FLAG,)
