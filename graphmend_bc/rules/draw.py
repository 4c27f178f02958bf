"""A function that draws from NumPy's generator on the host runs before the graph."""

from graphmend_bc.legality.host_code import draws_on_host
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    known = met.gb_type and draws_on_host(met.code)
    return (lambda plan: plan.with_draw(met.offset)) if known else None


RULE = Rule("draw", "draw", 3, _matches)
