"""A rule, and an extension with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import graphmend_bc
from graphmend_bc import (
    AskTruth,
    BreakSite,
    CallOperation,
    LiftBranch,
    LiftLoop,
    LiftRound,
    MarkCallee,
    MarkOperands,
    Outline,
    Rule,
)

SHAPES = (
    AskTruth(),
    CallOperation(),
    LiftBranch(conditional=True),
    LiftLoop(entered=True),
    LiftRound(),
    MarkOperands(),
    Outline(),
)


def matches(site: BreakSite) -> Mapping[int, MarkCallee] | None:
    """The calls of what is named `note`."""
    assert_type(site.callee, str)
    return {site.offset: MarkCallee(with_use=True)} if site.callee == "note" else None


RULE = Rule("downstream-note", "defer", 4, matches, handler="defer")
EXTENSION = graphmend_bc.Extension("downstream", rules=(RULE,), names=frozenset({"note"}))


def register_both_ways() -> list[str]:
    """The names under which rules were known meanwhile."""
    names = list[str]()
    registration: graphmend_bc.Registration = graphmend_bc.register_rule(RULE)
    graphmend_bc.config.rules_off = (RULE.name,)  # it is a known name now
    names += graphmend_bc.config.rules_off
    graphmend_bc.config.rules_off = ()
    registration.remove()
    registration = graphmend_bc.register(EXTENSION)
    registration.remove()
    return names
