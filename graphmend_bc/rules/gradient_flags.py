"""`m.zero.requires_grad_()` and `x.requires_grad_()`, where the tensor is there before the call.

Its flag is no part of a graph. That of an argument is set before the graph. That of a tensor which
stays is set once, and then the same call does nothing: it is set when the frame is compiled, or the
call of the frame that sets it runs as it is. What is compiled finds it set.
"""

from __future__ import annotations

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.gradient_flags import flag_before_graph, stays
from graphmend_bc.dynamo.before_graph.kept_flags import check_stays, flag_while_compiled
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.trace.compilation import CallLeft
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.enum_texts import method_read
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_NAME = "requires_grad_"


def _flagged(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """Set the flag before the graph, or once, or leave the call of the frame to eager Python.

    Raises:
        Refused: neither is exact, or the flag would be set in too many calls.
    """
    tensor, name = method_read(callee.callee.realize())
    if name != _NAME or not isinstance(tensor, TensorVariable) or kwargs or len(args) > 1:
        return None
    if tensor.source is None or not all(arg.realize().is_python_constant() for arg in args):
        return None
    value = args[0].realize().as_python_constant() if args else True
    if type(value) is not bool or tensor.requires_grad is value:
        return None
    compilation, trace = callee.compilation, callee.compilation.trace
    is_kept = stays(tensor.source)
    if value and not is_kept:
        flag_before_graph(tx, compilation, callee.site, tensor)
        return tensor
    if not is_kept or trace.arms:
        return None
    if value and compilation.sets_flags:
        try:
            flag_while_compiled(tx, compilation, callee.site, tensor)
            return tensor
        except Refused:
            if not compilation.leaves:
                raise
    check_stays(trace, tensor)
    if compilation.leaves:
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
"""An input comes to require a gradient before the graph; a tensor that stays, once."""

RULES = (FLAG,)
