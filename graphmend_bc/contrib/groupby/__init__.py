"""`itertools.groupby` is traced as a Python function that does the same."""

from __future__ import annotations

from typing import Final

from graphmend_bc.contrib.groupby.variables import grouped
from graphmend_bc.dynamo.calls.known_calls import known_call
from graphmend_bc.extension import Extension
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(in_order=False)} if site.gb_type and site.is_call else None


EXTENSION: Final = Extension(
    "groupby",
    rules=(
        Rule(
            "polyfill",
            "polyfill",
            10,
            _matches,
            frozenset(
                f"Unsupported {what} for itertools.groupby"
                for what in ("arguments", "key type", "kwargs")
            ),
            handler=known_call("polyfill", grouped),
        ),
    ),
)
