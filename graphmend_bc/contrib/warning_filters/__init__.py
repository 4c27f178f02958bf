"""`warnings.simplefilter` and `filterwarnings` in a block of `warnings.catch_warnings`.

Dynamo leaves such a block out of the graph. So it is shown in each call that nothing warns while
the graph runs, whatever the filters are: if something does, the graph is rolled back and the
original code runs. What the program itself says in the block, and a filter of the block hides, is
left out.
"""

from __future__ import annotations

from typing import Final

from graphmend_bc.contrib.warning_filters.blocks import NAMES, set_filter, setters_in
from graphmend_bc.contrib.warning_filters.hidden import is_filtered, warning
from graphmend_bc.dynamo.calls.known_calls import known_call
from graphmend_bc.dynamo.deferral.deferred_calls import KnownCallee
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.extension import Extension
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(in_order=False)} if site.callee in NAMES else None


EXTENSION: Final = Extension(
    "warnings",
    rules=(
        Rule(
            "filters",
            "flags",
            7,
            _matches,
            handler=known_call("flags", set_filter),
            needs=frozenset({capabilities.MODULE_FLAGS}),
            expects=setters_in,
        ),
    ),
    callees=(KnownCallee(is_filtered, warning),),
)
