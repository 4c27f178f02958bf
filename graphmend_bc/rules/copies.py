"""`copy.copy` of a plain dict, list or set is traced as its own method `copy`."""

from graphmend_bc.dynamo.substitutes.copying import copied
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    # `copier` is the name in the code of `copy.copy`.
    known = met.gb_type and met.callee in ("copier", "copy")
    return {met.offset: MarkCallee(in_order=False)} if known else None


RULE = Rule(
    "copies",
    "copy",
    9,
    _matches,
    frozenset({"Attempted to call function marked as skipped", "Unsupported method call"}),
    handler=copied,
)
