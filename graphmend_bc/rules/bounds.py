"""A slice that begins or ends at a tensor has that number computed before the graph."""

from graphmend_bc.rewriting.bounds import SLICES
from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    known = met.gb_type and met.op.name in SLICES
    return (lambda plan: plan.with_bounds(met.offset)) if known else None


RULE = Rule("bounds", "hoist", 58, _matches, CAPTURABLE)
