"""A function that draws from NumPy's generator on the host runs before the graph."""

from graphmend_bc.dynamo.before_graph.numpy_random import drawn
from graphmend_bc.legality.host_code import draws_on_host
from graphmend_bc.rewriting.plan import Outline
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    known = met.gb_type and draws_on_host(met.code)
    return {met.offset: Outline()} if known else None


RULE = Rule("draw", "draw", 3, _matches, handler=drawn)
