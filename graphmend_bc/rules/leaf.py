"""`t.requires_grad = True` is left out where nobody can read the gradient."""

from graphmend_bc.dynamo.substitutes.requires_grad import required
from graphmend_bc.rewriting.plan import CallOperation
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    known = met.op.name == "STORE_ATTR" and met.op.arg == "requires_grad"
    return {met.offset: CallOperation()} if known else None


# The second since torch 2.15, which traces it where nothing that leaves the graph depends on it.
_BREAKS = frozenset(
    {"setattr() on Tensor.requires_grad", "requires_grad_() intermediate leaked as output"}
)

RULE = Rule("leaf", "leaf", 8, _matches, _BREAKS, handler=required)
