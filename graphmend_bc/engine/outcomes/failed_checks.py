"""What changes for a frame's next compilation after its graph was no good."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import CodeType
from typing import Protocol

from graphmend_bc import config
from graphmend_bc.dynamo.frames import attempt
from graphmend_bc.engine.outcomes.failure_policy import (
    STREAK,
    FailedCheck,
    OnFailure,
    after_failure,
    is_frequent,
)
from graphmend_bc.engine.outcomes.frame_counts import FrameCounts
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import History, Tally, speculated
from graphmend_bc.runtime import Site

_VERSIONS = 4
"""Of a frame of which two conditions are guarded."""

_ROUNDS = 16
"""Of a loop, each of whose conditions may still be one that does not flip."""


class State(Protocol):
    """What is known across frames, as far as it is needed here."""

    history: dict[Site, History]
    given_up: dict[Site, Refused]
    guarded: set[Site]
    numbers: set[Site]
    selected: set[Site]

    def counts_of(self, code: CodeType) -> FrameCounts:
        """What was counted of a frame."""

    def function_of(self, code: CodeType) -> CodeType:
        """The function that a frame's code is, or goes on with after a break."""

    def leave_frame(self, code: CodeType, detail: str) -> None:
        """Stock Dynamo compiles a frame from now on."""


def change_after_failed_check(
    state: State, code: CodeType, tally: Tally, wrong: Sequence[int]
) -> Callable[[], None] | None:
    """What is to change for the next compilation; None if nothing yet.

    Args:
        state: what is known across frames.
        code: the frame's own code.
        tally: of its graph.
        wrong: the speculations whose checks failed, in their order; none if the graph raised.
    """
    if not wrong:
        tally.raised += 1
        if tally.one_graph or not tally.is_bad(tally.raised, config.failed_check_limit):
            return None
        raised = "Its graph raised too often."
        sites = dict.fromkeys(tally.operators, Refused("backend-refuses", raised))
        sites |= dict.fromkeys(tally.captured, Refused("capture-fails", raised))
        sites |= _too_many_failures(known.site for known in tally.speculations)
        return _giving_up(state, tally, sites)
    tally.note_failed_check(wrong)
    selects = tally.speculations[wrong[0]].site in _selectable(state, tally)
    tallies = state.counts_of(code).tallies
    flipping = dict.fromkeys(found for each in tallies for found in _flipping(each))
    known = _known(state, code, tally, wrong[0], selects=selects, flipping=len(flipping))
    decision = after_failure(known, config.failed_check_limit, config.flip_limit)
    if selects and (decision in (OnFailure.FLIP, OnFailure.GUARD) or known.is_independent):
        return partial(_select, state, tally)
    if decision is OnFailure.FLIP:
        return partial(_flip, state, tally, wrong)
    if decision is OnFailure.GUARD:
        # Where there were more versions, something else changes from call to call.
        at_once = known.flips_at_once and len(tallies) == 1
        return partial(_guard, state, tally, at_once=at_once)
    if decision is OnFailure.GIVE_UP:
        calls = f"{known.frame_failed} of {many(known.frame_calls, 'call')}"
        lost = f"Graphs ran for nothing in {calls} of the function."
        given_up = [tally.speculations[wrong[0]].site]
        if known.is_independent:
            given_up += [site for site, _ in flipping]
        detail = "" if known.firm else lost
        return _giving_up(state, tally, _too_many_failures(given_up, detail))
    if decision is OnFailure.LEAVE_FRAME:
        return partial(_leave, state, code, tally)
    return None


def _known(
    state: State, code: CodeType, tally: Tally, first: int, *, selects: bool, flipping: int
) -> FailedCheck:
    """What was counted of the speculation whose check failed first in a call.

    Args:
        state, code, tally: as for `change_after_failed_check`.
        first: the speculation.
        selects: whether the graph can select the number that it gives.
        flipping: how many conditions of the frame's graphs fail often.
    """
    speculation = tally.speculations[first]
    counts = state.counts_of(code)
    frame = speculated(counts.tallies)
    history = state.history.setdefault(speculation.site, History())
    rounds = tally.rounds(speculation.site)
    return FailedCheck(
        calls=tally.calls,
        failed=(tally.failed_checks if speculation.firm else tally.wrong)[first],
        streak=tally.streak if selects else tally.streaks[first],
        hits=tally.hits,
        flips=history.respecialised,
        changes=state.counts_of(state.function_of(code)).changes,
        forced=history.forced,
        firm=speculation.firm,
        by_chance=speculation.by_chance,
        guardable=speculation.guardable and rounds == 1,
        retired=tally.retired,
        single=not attempt.allows_versions(_VERSIONS),
        one_graph=tally.one_graph,
        many_rounds=rounds > _ROUNDS,
        frame_calls=frame.calls,
        frame_failed=frame.failed,
        flipping=flipping,
        patterns=len({values for each in counts.tallies for values in each.values()}),
    )


def _giving_up(state: State, tally: Tally, sites: dict[Site, Refused]) -> Callable[[], None] | None:
    def change() -> None:
        tally.retired = True
        state.given_up |= sites

    return change if sites and not tally.retired else None


def _select(state: State, tally: Tally) -> None:
    """Let the graph select a number at all branches that give one: it costs little at each."""
    tally.retired = True
    state.selected |= _selectable(state, tally)


def _selectable(state: State, tally: Tally) -> set[Site]:
    """The branches whose number the graph can select; in many rounds that costs more than eager."""
    sites = {known.site for known in tally.speculations if not known.firm}
    return {site for site in sites & state.numbers if tally.rounds(site) <= _ROUNDS}


def _flip(state: State, tally: Tally, wrong: Sequence[int]) -> None:
    """Assume other values where checks failed.

    That is at the first check of the call, in later rounds of its condition, and at other
    conditions whose checks failed in as many calls in a row as tell something.
    """
    first = tally.speculations[wrong[0]]
    constant = {tally.speculations[i].site for i in wrong if tally.streaks[i] >= STREAK}
    for site in {first.site, *constant}:
        rounds = [(i, known) for i, known in enumerate(tally.speculations) if known.site == site]
        since = min(i for i, _ in rounds if i in wrong)
        values = {k.occurrence: k.likely is not (i in wrong) for i, k in rounds if i >= since}
        if not tally.speculations[since].firm:
            state.history.setdefault(site, History()).flip_to(values)
    tally.retired = True


def _guard(state: State, tally: Tally, *, at_once: bool) -> None:
    """Guard all conditions that flip, but for those whose number the graph can select.

    Each alone would have the frame compiled anew.
    """
    tally.retired, tally.replaced_at_once = True, at_once
    sites, selectable = {site for site, _ in _flipping(tally)}, _selectable(state, tally)
    state.guarded |= sites - selectable
    state.selected |= sites & selectable


def _flipping(tally: Tally) -> Iterator[tuple[Site, int]]:
    """The conditions, each with its round, whose checks fail often, first in a call or not."""
    for index, failed in tally.wrong.items():
        known = tally.speculations[index]
        if is_frequent(failed, tally.calls) and not (known.firm or known.by_chance):
            yield known.site, known.occurrence


def _leave(state: State, code: CodeType, tally: Tally) -> None:
    tally.retired = True
    # What goes on after a break of it would be changed as often again.
    state.leave_frame(state.function_of(code), "Its speculations were changed too often.")


def _too_many_failures(sites: Iterable[Site], detail: str = "") -> dict[Site, Refused]:
    limit = f"The limit is {many(config.failed_check_limit, 'time')}."
    return dict.fromkeys(sites, Refused("speculation-missed", detail or limit))
