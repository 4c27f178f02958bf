"""A loop over the indices at which a mask is true is taken to go over all of them."""

from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_rows(met.offset)) if met.op.name == "GET_ITER" else None


RULE = Rule(
    "rows", "speculate", 46, _matches, frozenset({"UserError", "constrain_as_size_example"})
)
