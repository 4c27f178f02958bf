"""As `speculate`, with each condition of a short circuit speculated on by itself."""

from graphmend_bc.rewriting.plan import AskTruth
from graphmend_bc.rewriting.truth_guards import jumps_of_decision
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    if not met.is_condition or met.guards_loop:
        return None
    jumps = jumps_of_decision(met.graph, met.block)
    return dict.fromkeys(jumps, AskTruth()) if len(jumps) > 1 else None


RULE = Rule("each", "speculate", 32, _matches, DATA_DEPENDENT)
