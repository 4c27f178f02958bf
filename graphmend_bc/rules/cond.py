"""Only the arm that is taken runs, inside the graph, by `torch.cond`."""

from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import LiftBranch
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftBranch(conditional=True)} if met.is_branch else None


def _helps(refused: Refused) -> bool:
    """The reasons against computing both arms that do not matter if only one of them runs."""
    return refused.reason.code in {
        "arm-draws-random",
        "arm-may-raise",
        "arm-op-unknown",
        "arm-too-dear",
    }


RULE = Rule("cond", "cond", 20, _matches, DATA_DEPENDENT, _helps)
