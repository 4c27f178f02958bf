"""Tensors that a mask selects, where what follows must know how many elements there are."""

from __future__ import annotations

from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.speculation.full_masks import selected_by_full_masks
from graphmend_bc.rewriting.operands import is_subscript
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: CallOperation()} if is_subscript(site.op) else None


FULL_MASK = Rule(
    "full-mask",
    "speculate",
    62,
    _matches,
    frozenset({"Dynamic shape operator"}),
    handler=selected_by_full_masks,
    needs=frozenset({capabilities.SYMBOLS}),
)
"""A mask is assumed to be true everywhere, if what it selects is not known before the graph."""

RULES = (FULL_MASK,)
