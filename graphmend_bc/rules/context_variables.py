"""Context variables, which Dynamo reads itself since torch 2.14."""

from __future__ import annotations

from graphmend_bc.dynamo.before_graph.context_variables import context_value
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee == "get"
    return {site.offset: MarkCallee(in_order=False)} if known else None


CONTEXT = Rule(
    "context",
    "probe",
    8,
    _matches,
    frozenset({"Unsupported method call"}),
    handler=context_value,
    needs=frozenset({capabilities.COMPUTED_GUARDS, capabilities.UNCACHED_CALLS}),
)
"""The value of a `ContextVar` is an input of the graph, read before each call."""

RULES = (CONTEXT,)
