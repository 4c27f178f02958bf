"""A function that prepares a module the first time it is used is called while compiling."""

from graphmend_bc.catalog.first_use import preparation_by
from graphmend_bc.catalog.polyfills import polyfill_by
from graphmend_bc.dynamo.substitutes.first_use import prepared
from graphmend_bc.rewriting.plan import Outline
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    code = met.code
    known = met.gb_type and preparation_by(code) is not None and polyfill_by(code) is None
    return {met.offset: Outline()} if known else None


RULE = Rule("once", "once", 2, _matches, handler=prepared)
