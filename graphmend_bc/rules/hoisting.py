"""Values that are computed before the graph."""

from __future__ import annotations

from graphmend_bc.dynamo.before_graph.hoist import hoisted
from graphmend_bc.dynamo.before_graph.slice_bounds import slice_with_bounds
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.operands import SLICES, is_subscript
from graphmend_bc.rewriting.plan import CallOperation, MarkCallee, MarkOperands
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.rules.scalar_reads import CAPTURABLE

_KNOWN_TO_BREAK = {
    "Failed to trace builtin operator": "range",
    "torch.* op returned non-Tensor": "item",
}
"""By break types that mean many things: the callee at which a value is wanted."""


def _matches_hoist(site: BreakSite) -> Rewrites | None:
    if site.callee != _KNOWN_TO_BREAK.get(site.gb_type, site.callee):
        return None
    if not site.gb_type:
        return None
    if is_subscript(site.op) or site.op.name == "STORE_SUBSCR":
        return {site.offset: CallOperation()}
    return {site.offset: MarkCallee()} if site.is_call else None


HOIST = Rule(
    "hoist",
    "hoist",
    60,
    _matches_hoist,
    CAPTURABLE
    | {
        "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",
        "Dynamic shape operator (no meta kernel)",
        "Tensor.tolist() with non-integer tensor",
        "UserError",
        *_KNOWN_TO_BREAK,
    },
    handler=hoisted,
    needs=frozenset({capabilities.COMPUTED_GUARDS, capabilities.SYMBOLS}),
)
"""A value that depends on the inputs only is computed before the graph and becomes an input."""


def _matches_bounds(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.op.name in SLICES
    return {site.offset: MarkOperands()} if known else None


BOUNDS = Rule(
    "bounds",
    "hoist",
    58,
    _matches_bounds,
    CAPTURABLE,
    handler=slice_with_bounds,
    needs=frozenset({capabilities.COMPUTED_GUARDS, capabilities.SYMBOLS}),
)
"""A slice that begins or ends at a tensor has that number computed before the graph."""

RULES = (HOIST, BOUNDS)
