"""A list of the indices at which a mask is true is taken to have them all."""

from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_hits(met.offset)) if met.callee == "tolist" else None


RULE = Rule("hits", "speculate", 45, _matches, CAPTURABLE | {"UserError"})
