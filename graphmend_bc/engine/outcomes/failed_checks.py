"""What changes for a frame's next compilation after its graph was no good."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from types import CodeType
from typing import Protocol

from graphmend_bc import config
from graphmend_bc.dynamo.frames import attempt
from graphmend_bc.engine.outcomes.failure_policy import (
    FailedCheck,
    OnFailure,
    after_failure,
    is_frequent,
)
from graphmend_bc.engine.outcomes.frame_counts import FrameCounts
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
    state: State, code: CodeType, tally: Tally, index: int | None
) -> Callable[[], None] | None:
    """What is to change for the next compilation; None if nothing yet.

    Args:
        state: what is known across frames.
        code: the frame's own code.
        tally: of its graph.
        index: the speculation whose check failed; None if the graph raised.
    """
    if index is None:
        tally.raised += 1
        if tally.one_graph or not tally.is_bad(tally.raised, config.failed_check_limit):
            return None
        captured = Refused("capture-fails", "Its graph raised too often.")
        sites = dict.fromkeys(tally.captured, captured)
        return _giving_up(
            state, tally, sites | _too_many_failures(known.site for known in tally.speculations)
        )
    tally.note_failed_check(index)
    speculation = tally.speculations[index]
    history = state.history.setdefault(speculation.site, History())
    frame = speculated(state.counts_of(code).tallies)
    known = FailedCheck(
        calls=tally.calls,
        failed=tally.failed_checks[index],
        streak=tally.streak,
        hits=tally.hits,
        flips=history.respecialised,
        changes=state.counts_of(state.function_of(code)).changes,
        firm=speculation.firm,
        retired=tally.retired,
        single=not attempt.allows_versions(_VERSIONS),
        one_graph=tally.one_graph,
        many_rounds=tally.rounds(speculation.site) > _ROUNDS,
        frame_calls=frame.calls,
        frame_failed=frame.failed,
    )
    decision = after_failure(known, config.failed_check_limit, config.flip_limit)
    selects = speculation.site in _selectable(state, tally)
    if decision in (OnFailure.FLIP, OnFailure.GUARD) and selects:
        return partial(_select, state, tally)
    if decision is OnFailure.FLIP:
        return partial(history.flip_from, tally, speculation)
    if decision is OnFailure.GUARD:
        return partial(_guard, state, tally)
    if decision is OnFailure.GIVE_UP:
        lost = f"Graphs ran for nothing in {frame.failed} of {frame.calls} calls of the function."
        sites = _too_many_failures([speculation.site], lost if known.is_lost else "")
        return _giving_up(state, tally, sites)
    if decision is OnFailure.LEAVE_FRAME:
        return partial(_leave, state, code, tally)
    return None


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


def _guard(state: State, tally: Tally) -> None:
    """Guard all conditions that flip: each alone would have the frame compiled anew."""
    tally.retired = True
    for index, failed in tally.failed_checks.items():
        speculation = tally.speculations[index]
        if not speculation.firm and is_frequent(failed, tally.calls):
            state.guarded.add(speculation.site)


def _leave(state: State, code: CodeType, tally: Tally) -> None:
    tally.retired = True
    # What goes on after a break of it would be changed as often again.
    state.leave_frame(state.function_of(code), "Its speculations were changed too often.")


def _too_many_failures(sites: Iterable[Site], detail: str = "") -> dict[Site, Refused]:
    limit = f"The limit is {config.failed_check_limit} times."
    return dict.fromkeys(sites, Refused("speculation-missed", detail or limit))
