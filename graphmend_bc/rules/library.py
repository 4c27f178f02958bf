"""`functools.cached_property` and `logging.getLogger` are traced without the locks they hold."""

from graphmend_bc.catalog.polyfills import polyfill_by
from graphmend_bc.dynamo.substitutes.first_use import prepared
from graphmend_bc.rewriting.plan import Outline
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(met: BreakSite) -> Rewrites | None:
    known = met.gb_type and polyfill_by(met.code) is not None
    return {met.offset: Outline()} if known else None


RULE = Rule(
    "library",
    "polyfill",
    3,
    _matches,
    frozenset({"Unsupported context manager", "Unresolved GetAttrVariable comparison"}),
    handler=prepared,
)
