"""A truth value or number read from a tensor becomes a predicate of the graph."""

from graphmend_bc.rules.rule import DATA_DEPENDENT, Met, Rule, Widen

_ASKING = frozenset(
    {"item", "bool", "equal", "allclose", "is_nonzero", "__bool__", "_check_tensor_all"}
)


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_ask(met.offset)) if met.callee in _ASKING else None


RULE = Rule("ask", "capture", 40, _matches, DATA_DEPENDENT)
