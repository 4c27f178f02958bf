"""`itertools.groupby` is traced as a Python function that does the same."""

from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_known(met.offset)) if met.gb_type and met.is_call else None


RULE = Rule(
    "polyfill",
    "polyfill",
    10,
    _matches,
    frozenset(
        f"Unsupported {what} for itertools.groupby" for what in ("arguments", "key type", "kwargs")
    ),
)
