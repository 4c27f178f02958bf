"""Calls that only observe."""

from __future__ import annotations

from graphmend_bc.dynamo.deferral.deferred_calls import deferred
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.plan import MarkCallee
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

RULES = (DEFER,)
