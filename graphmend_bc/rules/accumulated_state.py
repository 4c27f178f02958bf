"""State that a function adds to in each call, such as a count, a sum or a history."""

from __future__ import annotations

from graphmend_bc.dynamo.deferral.additions import accumulated
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.accumulations import accumulations
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    # Nothing breaks there; it would be compiled again in each call.
    known = not site.gb_type and site.offset in accumulations(site.code)
    return {site.offset: CallOperation()} if known else None


ACCUMULATE = Rule(
    "accumulate",
    "accumulate",
    1,
    _matches,
    handler=accumulated,
    needs=frozenset({capabilities.DEFERRED_CALLS, capabilities.HOST_READS}),
    expects=accumulations,
)
"""What a function adds to is read and written after the graph, and not guarded on."""

RULES = (ACCUMULATE,)
