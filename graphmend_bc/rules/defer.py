"""A call without a used result, such as `print`, runs after the graph."""

from graphmend_bc.dynamo.effects.deferred_calls import deferred
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: MarkCallee()} if met.is_call and met.gb_type else None


RULE = Rule(
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
)
