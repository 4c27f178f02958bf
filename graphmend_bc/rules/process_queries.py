"""Questions about the process."""

from __future__ import annotations

from graphmend_bc.catalog.probes import NAMES
from graphmend_bc.dynamo.before_graph.guarded_constants import probed
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    # Dynamo calls a function that caches its results by way of `getattr_and_trace`.
    names = NAMES if site.code.co_name != "getattr_and_trace" else {"fn"}
    known = site.gb_type and site.callee in names
    return {site.offset: MarkCallee(in_order=False)} if known else None


PROBE = Rule(
    "probe",
    "probe",
    6,
    _matches,
    frozenset(
        {
            "Attempted to call function marked as skipped",
            "Call to a time function",  # since torch 2.15
            "Unsupported method call",
            "torch.* op returned non-Tensor",
        }
    ),
    handler=probed,
    needs=frozenset({capabilities.COMPUTED_GUARDS, capabilities.UNCACHED_CALLS}),
)
"""A question about the process is answered while tracing; a guard asks it again."""

RULES = (PROBE,)
