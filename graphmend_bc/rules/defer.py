"""A call that only observes runs after the graph."""

from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_effect(met.offset)) if met.is_call and met.gb_type else None


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
)
