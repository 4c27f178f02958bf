"""Which speculation is tried the other way, and when it is flipped back."""

from __future__ import annotations

from graphmend_bc.engine.outcomes.speculation_flips import SpeculationFlips
from graphmend_bc.reporting.speculation_stats import Speculation
from graphmend_bc.runtime import Site

CODE = SpeculationFlips.flip.__code__


def at(line: int, *, firm: bool = False, occurrence: int = 0) -> Speculation:
    site = Site.of(CODE, "POP_JUMP_FORWARD_IF_FALSE", 2 * line, line)
    return Speculation(site, occurrence, True, firm)


def flipped(flips: SpeculationFlips) -> dict[int, tuple[int, bool]]:
    return {site.lineno: value for site, value in flips.values.items()}


def test_the_last_one_first_and_back_if_that_was_not_it() -> None:
    flips = SpeculationFlips()
    assert flips.flip([at(1), at(2)], "here")
    assert flipped(flips) == {2: (0, False)}
    assert flips.flip([at(1), at(2)], "here")
    assert flipped(flips) == {1: (0, False)}
    assert not flips.flip([at(1), at(2)], "here")
    assert flipped(flips) == {}


def test_what_got_further_stays() -> None:
    flips = SpeculationFlips()
    assert flips.flip([at(1), at(2)], "here")
    assert flips.flip([at(1), at(2), at(3)], "further on")
    assert flipped(flips) == {2: (0, False), 3: (0, False)}


def test_a_way_that_only_raises_is_not_taken() -> None:
    assert not SpeculationFlips().flip([at(1, firm=True)], "here")


def test_from_an_occurrence_on() -> None:
    flips = SpeculationFlips()
    flips.flip([at(1, occurrence=2)], "here")
    site = at(1).site
    assert [flips.likely(site, n, True) for n in range(4)] == [True, True, False, False]


def test_four_are_tried() -> None:
    flips = SpeculationFlips()
    many = [at(line) for line in range(1, 9)]
    assert [flips.flip(many, place) for place in range(6)] == [True] * 4 + [False] * 2
