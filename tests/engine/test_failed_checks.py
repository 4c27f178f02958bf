"""What changes after the graphs of a frame were no good, with nothing compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import CodeType

from graphmend_bc.engine.outcomes.failed_checks import change_after_failed_check
from graphmend_bc.engine.outcomes.frame_counts import FrameCounts
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import History, Speculation, Tally
from graphmend_bc.runtime import Site

CODE = change_after_failed_check.__code__


class Known:
    """What is known across frames."""

    def __init__(self) -> None:
        self.history: dict[Site, History] = {}
        self.given_up: dict[Site, Refused] = {}
        self.guarded: set[Site] = set()
        self.numbers: set[Site] = set()
        self.selected: set[Site] = set()
        self.counts = FrameCounts()
        self.left: list[str] = []

    def counts_of(self, code: CodeType) -> FrameCounts:
        return self.counts

    def function_of(self, code: CodeType) -> CodeType:
        return code

    def leave_frame(self, code: CodeType, detail: str) -> None:
        self.left.append(detail)


def at(line: int, *, firm: bool = False, occurrence: int = 0) -> Speculation:
    site = Site.of(CODE, "POP_JUMP_FORWARD_IF_FALSE", 2 * line, line)
    return Speculation(site, occurrence, True, firm)


def tally_of(known: Known, *speculations: Speculation) -> Tally:
    tally = Tally(speculations)
    known.counts.tallies.append(tally)
    return tally


def failing(known: Known, tally: Tally, wrong: Sequence[int], calls: int) -> int | None:
    """After how many failures in a row something changes; the change is made."""
    for number in range(1, calls + 1):
        tally.calls += 1
        change = change_after_failed_check(known, CODE, tally, wrong)
        if change is not None:
            change()
            return number
    return None


def test_a_check_that_keeps_failing_is_flipped() -> None:
    known = Known()
    tally = tally_of(known, at(1))
    assert failing(known, tally, [0], 20) is not None
    assert known.history[at(1).site].respecialised == 1
    assert not known.given_up
    assert not known.left


def test_where_the_graph_can_select_a_number_nothing_is_flipped() -> None:
    known = Known()
    known.numbers = {at(1).site, at(2).site, at(3, firm=True).site}
    tally = tally_of(known, at(1), at(2), at(3, firm=True), at(4))
    assert failing(known, tally, [0], 20) is not None
    assert known.selected == {at(1).site, at(2).site}
    assert not known.guarded
    assert known.history[at(1).site].respecialised == 0
    assert tally.retired


def test_a_number_of_many_rounds_is_not_selected() -> None:
    known = Known()
    known.numbers = {at(1).site}
    tally = tally_of(known, *[at(1)] * 17)
    assert failing(known, tally, [0], 20) is not None
    assert not known.selected


def test_a_rare_failure_changes_nothing() -> None:
    known = Known()
    tally = tally_of(known, at(1))
    for _ in range(20):
        tally.calls += 40
        assert change_after_failed_check(known, CODE, tally, [0]) is None


def test_graphs_that_raise_too_often_give_their_sites_up() -> None:
    known = Known()
    tally = tally_of(known, at(1), at(2))
    assert failing(known, tally, [], 40) == 16
    assert {site.lineno: why.reason.code for site, why in known.given_up.items()} == {
        1: "speculation-missed",
        2: "speculation-missed",
    }
    assert tally.retired
    assert failing(known, tally, [], 40) is None  # once is enough


def test_a_function_that_must_be_one_graph_is_not_given_up() -> None:
    known = Known()
    tally = tally_of(known, at(1))
    tally.one_graph = True
    assert failing(known, tally, [], 60) is None


def runs(known: Known, tally: Tally, *calls: Sequence[int]) -> int | None:
    """In which of some calls, each with the checks that fail in it, something changes."""
    for number, wrong in enumerate(calls):
        tally.calls += 1
        change = change_after_failed_check(known, CODE, tally, wrong) if wrong else None
        if change is not None:
            change()
            return number
    return None


def test_each_round_of_a_loop_gets_the_value_that_it_had() -> None:
    """The last one differs, and so does one in the middle."""
    known = Known()
    tally = tally_of(known, *(at(1, occurrence=i) for i in range(6)))
    assert runs(known, tally, [2, 5]) == 0
    history = known.history[at(1).site]
    assert [history.likely(i) for i in range(8)] == [None, None, *map(bool, (0, 1, 1, 0, 0, 0))]
    assert history.respecialised == 1


def test_what_is_wrong_as_long_is_flipped_with_it() -> None:
    known = Known()
    tally = tally_of(known, at(1), at(2), at(3), at(4, firm=True))
    assert runs(known, tally, [], [0, 1, 3], [0, 1, 2, 3], [0, 1, 3]) == 3
    assert {site.lineno: h.likely(0) for site, h in known.history.items()} == {1: False, 2: False}


def test_conditions_that_flip_independently_are_given_up_together() -> None:
    known = Known()
    tally = tally_of(known, at(1), at(2), at(3), at(4))
    assert runs(known, tally, [], [0], [1, 2], [2], [0, 2], [1], [0, 1]) == 6
    assert {site.lineno for site in known.given_up} == {1, 2, 3}
    assert not known.guarded


def test_conditions_that_flip_together_are_guarded() -> None:
    known = Known()
    tally = tally_of(known, at(1), at(2), at(3), at(4))
    assert runs(known, tally, *[[], [0, 1, 2]] * 6) == 7
    assert {site.lineno for site in known.guarded} == {1, 2, 3}
    assert not known.given_up


def test_a_condition_that_flips_back_is_guarded() -> None:
    known = Known()
    first, second = tally_of(known, at(1)), tally_of(known, replace(at(1), likely=False))
    assert runs(known, first, [], [0], [0], [0]) == 3
    assert runs(known, second, [], [0], [0], [0]) == 3
    assert known.guarded == {at(1).site}


def test_a_condition_that_changed_for_good_is_flipped_again() -> None:
    known = Known()
    first, second = tally_of(known, at(1)), tally_of(known, replace(at(1), likely=False))
    assert runs(known, first, [], [0], [0], [0]) == 3
    assert runs(known, second, *[[]] * 40, [0], [0], [0]) == 42
    assert not known.guarded
    assert known.history[at(1).site].respecialised == 2


def test_numbers_that_flip_independently_are_selected() -> None:
    known = Known()
    known.numbers = {at(1).site, at(2).site}
    tally = tally_of(known, at(1), at(2), at(3))
    assert runs(known, tally, [], [0], [1, 2], [2], [0, 2], [1], [0, 1]) is not None
    assert known.selected == {at(1).site, at(2).site}
    assert not known.given_up
