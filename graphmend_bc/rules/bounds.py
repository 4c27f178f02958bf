"""A slice that begins or ends at a tensor has that number computed before the graph."""

from graphmend_bc.dynamo.before_graph.slice_bounds import slice_with_bounds
from graphmend_bc.rewriting.operands import SLICES
from graphmend_bc.rewriting.plan import MarkOperands
from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    known = met.gb_type and met.op.name in SLICES
    return {met.offset: MarkOperands()} if known else None


RULE = Rule("bounds", "hoist", 58, _matches, CAPTURABLE, handler=slice_with_bounds)
