"""`while` loops whose condition is a tensor."""

from __future__ import annotations

from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.plan import AskTruth, LiftLoop, LiftRound
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule


def _matches_loop(site: BreakSite) -> Rewrites | None:
    return {site.offset: LiftLoop()} if site.guards_loop else None


LOOP = Rule(
    "loop",
    "while_loop",
    12,
    _matches_loop,
    DATA_DEPENDENT,
    needs=frozenset({capabilities.SELECTION}),
)
"""A while loop becomes `torch.while_loop`."""


def _matches_entered(site: BreakSite) -> Rewrites | None:
    return {site.offset: LiftLoop(entered=True)} if site.guards_loop else None


ENTERED = Rule(
    "entered",
    "while_loop",
    14,
    _matches_entered,
    DATA_DEPENDENT,
    needs=frozenset({capabilities.SELECTION}),
)
"""A while loop becomes `torch.while_loop`; its first iteration is speculated on."""


def _matches_round(site: BreakSite) -> Rewrites | None:
    return {site.offset: LiftRound()} if site.ends_round else None


ROUND = Rule(
    "round",
    "while_loop",
    16,
    _matches_round,
    DATA_DEPENDENT,
    needs=frozenset({capabilities.SELECTION}),
)
"""A loop that is left at the end of an iteration only becomes `torch.while_loop`."""


def _matches_unrolled(site: BreakSite) -> Rewrites | None:
    return {site.offset: AskTruth(unbounded=True)} if site.guards_loop else None


UNROLLED = Rule(
    "unrolled",
    "hoist",
    34,
    _matches_unrolled,
    DATA_DEPENDENT,
    needs=frozenset({capabilities.COMPUTED_GUARDS}),
)
"""A while loop is unrolled; its conditions are computed before the graph."""

RULES = (LOOP, ENTERED, ROUND, UNROLLED)
