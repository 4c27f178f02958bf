"""Which way an attempt that has failed goes on at a jump, and what is planned next for a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphmend_bc import session
from graphmend_bc.dynamo.frames.breaks import Break, gb_id_of
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.engine.plans.survey_policy import Surveys
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.runtime import identity_of


def branching(x: Any) -> Any:
    if x.sum() > 0:
        x = x * 2
    return x


def guarding(x: Any) -> Any:
    if x.isnan().any():
        raise ValueError
    return x


def looping(x: Any) -> Any:
    while x.sum() > 1:
        x = x / 2
    return x


def jump_of(function: Callable[..., Any]) -> int:
    ops = BreakSite(function.__code__, 0).graph.listing.ops
    return next(op.offset for op in ops if BreakSite(function.__code__, op.offset).is_condition)


def surveys_of(function: Callable[..., Any]) -> Surveys:
    state = session.new_state(mends=True)
    return Surveys(Plans(state, identity_of(function.__code__), False, False))


def start(plans: Plans, function: Callable[..., Any]) -> bool:
    """Plan its condition as a trace does that has met it."""
    code, jump, kind = function.__code__, jump_of(function), "Data-dependent branching"
    site = site_of(code, jump)
    plans.breaks[site] = Break(code, jump, kind, gb_id_of(kind), "")
    return plans.start(code, site)


@pytest.mark.parametrize(
    ("function", "way"),
    [(branching, (True, False)), (guarding, (False, True)), (looping, None)],
)
def test_the_way_that_the_bytecode_suggests(
    function: Callable[..., Any], way: tuple[bool, bool] | None
) -> None:
    found = surveys_of(function).survey_at(function.__code__, jump_of(function))
    assert (None if found is None else (found.likely, found.firm)) == way


def test_nowhere_that_a_plan_or_a_decline_covers() -> None:
    code, jump = branching.__code__, jump_of(branching)
    surveys, site = surveys_of(branching), site_of(branching.__code__, jump)
    surveys.unplanned.add(site)
    assert surveys.survey_at(code, jump) is None
    surveys.unplanned.clear()
    surveys.plans.state.given_up[site] = Refused("speculation-missed")
    assert surveys.survey_at(code, jump) is None
    surveys.plans.state.given_up.clear()
    assert start(surveys.plans, branching)
    assert surveys.survey_at(code, jump) is None


@pytest.mark.parametrize(
    ("code", "speculates"),
    [("alias-escapes", True), ("arm-too-dear", False), ("under-export", False)],
)
def test_what_is_planned_next_for_a_branch(code: str, speculates: bool) -> None:
    """After a reason that `cond` does not help with, the branch is speculated on."""
    surveys, site = surveys_of(branching), site_of(branching.__code__, jump_of(branching))
    assert surveys.speculation_after(site, Refused(code)) is None  # nothing is planned
    assert start(surveys.plans, branching)
    assert (surveys.speculation_after(site, Refused(code)) is not None) is speculates
