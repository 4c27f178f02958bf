"""A tensor made to require a gradient that nobody can ask for is left as it is."""

from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    known = met.op.name == "STORE_ATTR" and met.op.arg == "requires_grad"
    return (lambda plan: plan.with_leaf(met.offset)) if known else None


RULE = Rule("leaf", "leaf", 8, _matches, frozenset({"setattr() on Tensor.requires_grad"}))
