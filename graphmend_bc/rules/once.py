"""A function that prepares a module the first time it is used is called while compiling."""

from graphmend_bc.polyfills import polyfill_by
from graphmend_bc.preparations import preparation_by
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    code = met.code
    known = met.gb_type and preparation_by(code) is not None and polyfill_by(code) is None
    return (lambda plan: plan.with_once(met.offset)) if known else None


RULE = Rule("once", "once", 2, _matches)
