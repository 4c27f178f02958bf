"""What is done after the graph: calls that only observe, and additions to the program's state."""

from __future__ import annotations

from graphmend_bc.dynamo.deferral.additions import accumulated
from graphmend_bc.dynamo.deferral.deferred_calls import deferred
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.accumulations import accumulations
from graphmend_bc.rewriting.plan import CallOperation, MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.is_call and site.gb_type else None


DEFER = Rule(
    "defer",
    "defer",
    5,
    _matches,
    frozenset(
        {
            "Failed to trace builtin operator",
            "logging.Logger method not supported for non-export cases",
        }
    ),
    handler=deferred,
    needs=frozenset(
        {capabilities.DEFERRED_CALLS, capabilities.HOST_READS, capabilities.UNCACHED_CALLS}
    ),
)
"""A call without a used result, such as `print`, runs after the graph."""


def _matches_addition(site: BreakSite) -> Rewrites | None:
    # Nothing breaks there; it would be compiled again in each call.
    known = not site.gb_type and site.offset in accumulations(site.code)
    return {site.offset: CallOperation()} if known else None


ACCUMULATE = Rule(
    "accumulate",
    "accumulate",
    1,
    _matches_addition,
    handler=accumulated,
    needs=frozenset({capabilities.DEFERRED_CALLS, capabilities.HOST_READS}),
    expects=accumulations,
)
"""What a function adds to is read and written after the graph, and not guarded on."""

RULES = (DEFER, ACCUMULATE)
