"""A function that prepares a module the first time it is used is called while compiling."""

from graphmend_bc.preparations import preparation_by
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    known = met.gb_type and preparation_by(met.code) is not None
    return (lambda plan: plan.with_once(met.offset)) if known else None


RULE = Rule("once", "once", 2, _matches)
