"""A loop over the indices at which a mask is true is assumed to visit all indices."""

from graphmend_bc.dynamo.speculation.full_mask_rows import known_rows
from graphmend_bc.rewriting.plan import MarkOperands
from graphmend_bc.rules.rule import Met, Rewrites, Rule


def _matches(met: Met) -> Rewrites | None:
    return {met.offset: MarkOperands()} if met.op.name == "GET_ITER" else None


RULE = Rule(
    "rows",
    "speculate",
    46,
    _matches,
    frozenset({"UserError", "constrain_as_size_example"}),
    handler=known_rows,
)
