"""A list of the indices at which a mask is true is assumed to hold all indices."""

from graphmend_bc.dynamo.speculation.full_mask_list import listed
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import Met, Rewrites, Rule


def _matches(met: Met) -> Rewrites | None:
    return {met.offset: MarkCallee()} if met.callee == "tolist" else None


RULE = Rule("hits", "speculate", 45, _matches, CAPTURABLE | {"UserError"}, handler=listed)
