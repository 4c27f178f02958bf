"""`itertools.groupby` is traced as a Python function that does the same."""

from graphmend_bc.dynamo.substitutes.groupby import grouped
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import Met, Rewrites, Rule


def _matches(met: Met) -> Rewrites | None:
    return {met.offset: MarkCallee(in_order=False)} if met.gb_type and met.is_call else None


RULE = Rule(
    "polyfill",
    "polyfill",
    10,
    _matches,
    frozenset(
        f"Unsupported {what} for itertools.groupby" for what in ("arguments", "key type", "kwargs")
    ),
    handler=grouped,
)
