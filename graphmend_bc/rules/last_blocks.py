"""A scheduler's step in a `with` block at the end: the whole block runs after the graph."""

from __future__ import annotations

from graphmend_bc.dynamo.calls.markers import outlined
from graphmend_bc.dynamo.deferral.final_blocks import final_block
from graphmend_bc.dynamo.deferral.final_calls import SKIPPED_BREAK
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.plan import OutlineBlock
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee == "step" and site.op.handler is not None
    return {site.offset: OutlineBlock()} if known else None


LAST_BLOCK = Rule(
    "last-block",
    "defer",
    6,
    _matches,
    frozenset({SKIPPED_BREAK}),
    handler=outlined(final_block),
    needs=frozenset(
        {capabilities.DEFERRED_CALLS, capabilities.HOST_READS, capabilities.UNCACHED_CALLS}
    ),
)
"""A `with` block around `scheduler.step()` at the end of a function runs after the graph."""

RULES = (LAST_BLOCK,)
