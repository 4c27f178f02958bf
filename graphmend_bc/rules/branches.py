"""Branches: one arm is taken, both are computed, or one is assumed."""

from __future__ import annotations

from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.truth_guards import jumps_of_decision
from graphmend_bc.rewriting.plan import AskTruth, LiftBranch
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches_where(site: BreakSite) -> Rewrites | None:
    return {site.offset: LiftBranch()} if site.is_branch else None


WHERE = Rule(
    "where",
    "where",
    10,
    _matches_where,
    DATA_DEPENDENT,
    needs=frozenset({capabilities.SELECTION}),
    planned_ahead=True,
)
"""Both arms are computed, and `torch.where` selects one result."""


def _matches_cond(site: BreakSite) -> Rewrites | None:
    return {site.offset: LiftBranch(conditional=True)} if site.is_branch else None


def _helps_cond(refused: Refused) -> bool:
    """The reasons against computing both arms that do not matter if only one of them runs."""
    return refused.reason.code in {
        "arm-draws-random",
        "arm-may-raise",
        "arm-op-unknown",
        "arm-too-dear",
    }


COND = Rule(
    "cond",
    "cond",
    20,
    _matches_cond,
    DATA_DEPENDENT,
    _helps_cond,
    needs=frozenset({capabilities.SELECTION}),
)
"""Only the arm that is taken runs, inside the graph, by `torch.cond`."""


def _matches_speculate(site: BreakSite) -> Rewrites | None:
    asks = site.op.name == "UNARY_NOT" or (site.is_condition and not site.guards_loop)
    return {site.offset: AskTruth()} if asks else None


SPECULATE = Rule(
    "speculate", "speculate", 30, _matches_speculate, DATA_DEPENDENT, planned_ahead=True
)
"""The likely arm is compiled alone, and the condition is checked after the graph."""


def _matches_each(site: BreakSite) -> Rewrites | None:
    if not site.is_condition or site.guards_loop:
        return None
    jumps = jumps_of_decision(site.graph, site.block)
    return dict.fromkeys(jumps, AskTruth()) if len(jumps) > 1 else None


EACH = Rule("each", "speculate", 32, _matches_each, DATA_DEPENDENT)
"""As `speculate`, with each condition of a short circuit speculated on by itself."""

RULES = (WHERE, COND, SPECULATE, EACH)
