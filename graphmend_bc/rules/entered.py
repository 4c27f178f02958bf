"""A while loop becomes `torch.while_loop`; its first iteration is speculated on."""

from graphmend_bc.rewriting.plan import LiftLoop
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftLoop(entered=True)} if met.guards_loop else None


RULE = Rule("entered", "while_loop", 14, _matches, DATA_DEPENDENT)
