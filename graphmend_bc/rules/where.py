"""Both arms are computed, and `torch.where` selects one result."""

from graphmend_bc.rewriting.plan import LiftBranch
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftBranch()} if met.is_branch else None


RULE = Rule("where", "where", 10, _matches, DATA_DEPENDENT)
