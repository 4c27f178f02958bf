"""The likely arm is compiled alone, and the condition is checked after the graph."""

from graphmend_bc.rewriting.plan import AskTruth
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    asks = met.op.name == "UNARY_NOT" or (met.is_condition and not met.guards_loop)
    return {met.offset: AskTruth()} if asks else None


RULE = Rule("speculate", "speculate", 30, _matches, DATA_DEPENDENT)
