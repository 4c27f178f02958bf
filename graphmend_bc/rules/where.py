"""Both arms are computed, and one result is chosen."""

from graphmend_bc.rules.rule import DATA_DEPENDENT, Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_branch(met.offset)) if met.is_branch else None


RULE = Rule("where", "where", 10, _matches, DATA_DEPENDENT)
