"""Does a mend pay? Decided from counts alone, so that the same calls give the same decisions.

A speculation whose check fails, and a frame that is compiled again, each come here with what was
counted so far. Nothing is measured in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from graphmend_bc.dynamo.speculation.guarded_truth import MOST_GUARDED

_CHANCE = 4
"""Failed checks that may be chance. Where the other arm only raises, the setting counts."""

_FIRST = 3
"""Calls in which a condition that goes both ways is taken to flip ever after."""

STREAK = 3
"""Failed checks in a row after which a condition is taken to have changed for good."""

_SETTLED = 16
"""Calls in which the results of a graph were used after which it was worth compiling."""

_FLIPS = 3
"""How often it is compiled otherwise before conditions that fail are guarded, not flipped."""

_CHANGES = 6
"""How often one frame may be compiled otherwise because checks failed."""

_LOST = 6
"""Failed checks of all graphs of a frame after which more than half of its calls must succeed, if a
condition of too many rounds is to be blamed, or several that flip independently."""


class OnFailure(Enum):
    """What becomes of a site whose check failed."""

    KEEP = "keep"
    FLIP = "flip"
    GUARD = "guard"
    GIVE_UP = "give up"
    LEAVE_FRAME = "leave frame"


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A speculation whose check has just failed.

    Attributes:
        calls: how often its graph ran.
        failed: in how many of them its check failed.
        streak: in how many of the last ones, without a break.
        hits: how often the results of the graph were used.
        flips: how often the likely value of the site was flipped.
        changes: how often the frame was compiled otherwise because checks failed.
        forced: True if the value is assumed because the other one does not trace.
        firm: True if the other value only leads to a raise.
        by_chance: True if a random number decides, which mostly gives the value.
        guardable: True if the condition can be computed before the graph, and is asked once.
        retired: True if the graph is not used for new calls any more.
        single: True if the frame may not be compiled in more versions, one for each value.
        one_graph: True if a graph break of the frame is an error.
        many_rounds: True if the site stands in a loop in which some condition always flips.
        frame_calls: how often any graph of the frame ran that has speculations.
        frame_failed: in how many of those calls a check failed.
        flipping: how many conditions of these graphs fail often and are not firm, each round of a
            loop for itself.
        patterns: how many combinations of values these graphs have met.
    """

    calls: int
    failed: int
    streak: int
    hits: int
    flips: int
    changes: int
    forced: bool = False
    firm: bool = False
    by_chance: bool = False
    guardable: bool = False
    retired: bool = False
    single: bool = False
    one_graph: bool = False
    many_rounds: bool = False
    frame_calls: int = 0
    frame_failed: int = 0
    flipping: int = 1
    patterns: int = 2

    @property
    def goes_both_ways(self) -> bool:
        """True if the other value was right before, but not for so long that it was the rule."""
        return 0 < self.hits < _SETTLED and (self.flips > 0 or self.failed > self.streak)

    @property
    def flips_at_once(self) -> bool:
        """True if it went both ways in the first calls; guarded, it is compiled while they last."""
        first = self.hits > 0 == self.flips and self.calls <= _FIRST
        return first and self.guardable and self.flipping == 1 and not self.single

    @property
    def is_elsewhere(self) -> bool:
        """True if all calls went the way that does not trace."""
        return self.forced and self.frame_calls == self.frame_failed >= STREAK

    @property
    def is_independent(self) -> bool:
        """True if more conditions flip than can be guarded, not together, in half of all calls."""
        return (
            self._is_half_lost and self.flipping > MOST_GUARDED and self.patterns >= 2**MOST_GUARDED
        )

    @property
    def is_lost(self) -> bool:
        """True if the graphs of the frame run for nothing in half of its calls, due to a loop."""
        return self.many_rounds and self._is_half_lost

    @property
    def _is_half_lost(self) -> bool:
        return self.frame_failed >= _LOST and 2 * self.frame_failed >= self.frame_calls


def after_failure(known: FailedCheck, failed_limit: int, flip_limit: int) -> OnFailure:
    """What becomes of a site whose check failed.

    A first value that never was right, or a streak, means that the other value is the likely one. A
    check that fails now and then belongs to a condition that flips: it is asked before the graph.

    Args:
        known: what was counted.
        failed_limit: failed checks that are enough where the other arm only raises.
        flip_limit: flips of one site.
    """
    as_foreseen = known.by_chance and (known.failed < _CHANCE or 2 * known.failed <= known.calls)
    if known.retired or as_foreseen:
        return OnFailure.KEEP
    bounded = known.firm or known.one_graph
    if (known.is_lost or known.is_independent or known.is_elsewhere) and not bounded:
        return OnFailure.GIVE_UP
    enough = failed_limit if known.firm else min(_CHANCE, failed_limit)
    often = known.failed >= enough and is_frequent(known.failed, known.calls)
    often |= known.flips_at_once
    wrong = known.streak >= STREAK or (known.hits == 0 and known.flips == 0)
    flips = wrong and not known.firm and known.flips < flip_limit and known.changes < _FLIPS
    if flips and known.goes_both_ways and not known.one_graph:
        flips, often = False, True
    if not flips and not often:
        return OnFailure.KEEP
    if known.one_graph:
        # Without the speculation the call raises: a failed check costs less than that.
        return OnFailure.FLIP if flips else _guarded_if_possible(known)
    if known.changes >= _CHANGES:
        return OnFailure.LEAVE_FRAME
    if known.firm:
        return OnFailure.GIVE_UP
    if flips:
        return OnFailure.FLIP
    return OnFailure.LEAVE_FRAME if known.single else OnFailure.GUARD


def _guarded_if_possible(known: FailedCheck) -> OnFailure:
    most = known.firm or known.single or known.changes >= _CHANGES
    return OnFailure.KEEP if most else OnFailure.GUARD


def is_frequent(failed: int, calls: int) -> bool:
    """True if failed checks cost more than the graph saves.

    A failed check costs a run of the graph and a run of the original code.
    """
    return 8 * failed > calls


@dataclass(frozen=True, slots=True)
class Recompiled:
    """A mended frame that is to be compiled again.

    Attributes:
        entries: its compiled versions that Dynamo counts against its limit.
        limit: that limit; past it Dynamo runs the frame eagerly for good.
        one_graph: True if a graph break of it is an error.
        asserts: True if it has an `assert` that stock would tell by another exception.
        breaks: True if stock would break its graph.
        varies: True if it goes on after a break at a value for which the function was compiled too
            often.
    """

    entries: int
    limit: int
    one_graph: bool = False
    asserts: bool = False
    breaks: bool = True
    varies: bool = False


def leaves_frame(known: Recompiled) -> bool:
    """True if stock Dynamo is to compile a frame from now on.

    Its pieces may depend on less than the whole, so that they are compiled less often. They need
    what Dynamo's limit allows, so the last place is not used up.

    Args:
        known: what was counted.
    """
    if known.one_graph or known.asserts or not known.breaks:
        return False
    limit = min(known.limit, _IF_VARIES) if known.varies else known.limit
    return 1 < limit <= known.entries + 1


_IF_VARIES = 4
"""Of a frame that stock may skip, or compile for any value."""
