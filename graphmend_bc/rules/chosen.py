"""A draw that chooses one of a few is made before the graph; each outcome is compiled by itself."""

from graphmend_bc.dynamo.before_graph.guarded_draws import chosen
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime.draws import PYTHON_DRAWS


def _matches(met: BreakSite) -> Rewrites | None:
    known = met.gb_type and met.callee in PYTHON_DRAWS
    return {met.offset: MarkCallee(in_order=False)} if known else None


RULE = Rule("chosen", "draw", 46, _matches, frozenset({"Data dependent operator"}), handler=chosen)
