"""What changes after the graphs of a frame were no good, with nothing compiled."""

from __future__ import annotations

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


def at(line: int, *, firm: bool = False) -> Speculation:
    return Speculation(Site.of(CODE, "POP_JUMP_FORWARD_IF_FALSE", 2 * line, line), 0, True, firm)


def tally_of(known: Known, *speculations: Speculation) -> Tally:
    tally = Tally(speculations)
    known.counts.tallies.append(tally)
    return tally


def failing(known: Known, tally: Tally, index: int | None, calls: int) -> int | None:
    """After how many failures in a row something changes; the change is made."""
    for number in range(1, calls + 1):
        tally.calls += 1
        change = change_after_failed_check(known, CODE, tally, index)
        if change is not None:
            change()
            return number
    return None


def test_a_check_that_keeps_failing_is_flipped() -> None:
    known = Known()
    tally = tally_of(known, at(1))
    assert failing(known, tally, 0, 20) is not None
    assert known.history[at(1).site].respecialised == 1
    assert not known.given_up
    assert not known.left


def test_where_the_graph_can_select_a_number_nothing_is_flipped() -> None:
    known = Known()
    known.numbers = {at(1).site, at(2).site, at(3, firm=True).site}
    tally = tally_of(known, at(1), at(2), at(3, firm=True), at(4))
    assert failing(known, tally, 0, 20) is not None
    assert known.selected == {at(1).site, at(2).site}
    assert not known.guarded
    assert known.history[at(1).site].respecialised == 0
    assert tally.retired


def test_a_number_of_many_rounds_is_not_selected() -> None:
    known = Known()
    known.numbers = {at(1).site}
    tally = tally_of(known, *[at(1)] * 17)
    assert failing(known, tally, 0, 20) is not None
    assert not known.selected


def test_a_rare_failure_changes_nothing() -> None:
    known = Known()
    tally = tally_of(known, at(1))
    for _ in range(20):
        tally.calls += 40
        assert change_after_failed_check(known, CODE, tally, 0) is None


def test_graphs_that_raise_too_often_give_their_sites_up() -> None:
    known = Known()
    tally = tally_of(known, at(1), at(2))
    assert failing(known, tally, None, 40) == 16
    assert {site.lineno: why.reason.code for site, why in known.given_up.items()} == {
        1: "speculation-missed",
        2: "speculation-missed",
    }
    assert tally.retired
    assert failing(known, tally, None, 40) is None  # once is enough


def test_a_function_that_must_be_one_graph_is_not_given_up() -> None:
    known = Known()
    tally = tally_of(known, at(1))
    tally.one_graph = True
    assert failing(known, tally, None, 60) is None
