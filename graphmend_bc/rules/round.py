"""A loop that is left at the end of an iteration only becomes `torch.while_loop`."""

from graphmend_bc.rewriting.plan import LiftRound
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftRound()} if met.ends_round else None


RULE = Rule("round", "while_loop", 16, _matches, DATA_DEPENDENT)
