"""Branches: one arm is taken, both are computed, or one is taken for granted."""

from __future__ import annotations

from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.truth_guards import jumps_of_decision
from graphmend_bc.rewriting.plan import AskTruth, LiftBranch
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches_where(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftBranch()} if met.is_branch else None


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


def _matches_cond(met: BreakSite) -> Rewrites | None:
    return {met.offset: LiftBranch(conditional=True)} if met.is_branch else None


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


def _matches_speculate(met: BreakSite) -> Rewrites | None:
    asks = met.op.name == "UNARY_NOT" or (met.is_condition and not met.guards_loop)
    return {met.offset: AskTruth()} if asks else None


SPECULATE = Rule(
    "speculate", "speculate", 30, _matches_speculate, DATA_DEPENDENT, planned_ahead=True
)
"""The likely arm is compiled alone, and the condition is checked after the graph."""


def _matches_each(met: BreakSite) -> Rewrites | None:
    if not met.is_condition or met.guards_loop:
        return None
    jumps = jumps_of_decision(met.graph, met.block)
    return dict.fromkeys(jumps, AskTruth()) if len(jumps) > 1 else None


EACH = Rule("each", "speculate", 32, _matches_each, DATA_DEPENDENT)
"""As `speculate`, with each condition of a short circuit speculated on by itself."""

RULES = (WHERE, COND, SPECULATE, EACH)
