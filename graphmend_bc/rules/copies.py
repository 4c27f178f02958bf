"""What `copy.copy` does for a plain dict, list or set is their own method, which Dynamo traces."""

from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    # `copier` is the name in the code of `copy.copy`.
    known = met.gb_type and met.callee in ("copier", "copy")
    return (lambda plan: plan.with_known(met.offset)) if known else None


RULE = Rule(
    "copies", "copy", 9, _matches, frozenset({"Attempted to call function marked as skipped"})
)
