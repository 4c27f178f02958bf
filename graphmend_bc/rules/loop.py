"""A while loop becomes `torch.while_loop`."""

from graphmend_bc.rewriting.plan import LiftLoop
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftLoop()} if met.guards_loop else None


RULE = Rule("loop", "while_loop", 12, _matches, DATA_DEPENDENT)
