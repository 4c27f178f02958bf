"""What `copy.copy` does for a plain dict, list or set is their own method, which Dynamo traces."""

from graphmend_bc.dynamo.substitutes.copying import copied
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import Met, Rewrites, Rule


def _matches(met: Met) -> Rewrites | None:
    # `copier` is the name in the code of `copy.copy`.
    known = met.gb_type and met.callee in ("copier", "copy")
    return {met.offset: MarkCallee(in_order=False)} if known else None


RULE = Rule(
    "copies",
    "copy",
    9,
    _matches,
    frozenset({"Attempted to call function marked as skipped"}),
    handler=copied,
)
