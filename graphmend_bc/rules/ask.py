"""A truth value or number read from a tensor becomes a predicate of the graph."""

from graphmend_bc.dynamo.predication.tensor_predicates import asked_predicate
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule

_ASKING = frozenset(
    {"item", "bool", "equal", "allclose", "is_nonzero", "__bool__", "_check_tensor_all"}
)


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: MarkCallee(with_use=True)} if met.callee in _ASKING else None


RULE = Rule("ask", "capture", 40, _matches, DATA_DEPENDENT, handler=asked_predicate)
