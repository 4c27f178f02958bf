"""A value that depends on the inputs only is computed before the graph and becomes an input."""

from graphmend_bc.dynamo.before_graph.hoist import hoisted
from graphmend_bc.rewriting.operands import is_subscript
from graphmend_bc.rewriting.plan import CallOperation, MarkCallee
from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_KNOWN_TO_BREAK = {
    "Failed to trace builtin operator": "range",
    "torch.* op returned non-Tensor": "item",
}
"""By break types that mean many things: the callee at which a value is wanted."""


def _matches(met: BreakSite) -> Rewrites | None:
    if met.callee != _KNOWN_TO_BREAK.get(met.gb_type, met.callee):
        return None
    if not met.gb_type:
        return None
    if is_subscript(met.op):
        return {met.offset: CallOperation()}
    return {met.offset: MarkCallee()} if met.is_call else None


RULE = Rule(
    "hoist",
    "hoist",
    60,
    _matches,
    CAPTURABLE
    | {
        "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",
        "Dynamic shape operator (no meta kernel)",
        "Tensor.tolist() with non-integer tensor",
        "UserError",
        *_KNOWN_TO_BREAK,
    },
    handler=hoisted,
)
