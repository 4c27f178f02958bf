"""`functools.cached_property` and `logging.getLogger` are traced without the locks they hold."""

from graphmend_bc.polyfills import polyfill_by
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    known = met.gb_type and polyfill_by(met.code) is not None
    return (lambda plan: plan.with_once(met.offset)) if known else None


RULE = Rule(
    "library",
    "polyfill",
    3,
    _matches,
    frozenset({"Unsupported context manager", "Unresolved GetAttrVariable comparison"}),
)
