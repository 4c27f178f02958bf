"""Speculations that are flipped while a frame is compiled, because their path does not trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphmend_bc.reporting.speculation_stats import History, Speculation
from graphmend_bc.runtime import Site

_MOST = 4
"""Most speculations that are tried the other way in one frame; each costs an attempt."""


@dataclass(slots=True)
class SpeculationFlips:
    """The speculations of one frame that were tried the other way.

    The last speculation before the place where tracing stopped is flipped. If tracing then stops at
    the same place, that had nothing to do with it: it is flipped back and the one before it is
    tried.

    Attributes:
        values: by site, from which occurrence on which value is taken.
        tried: speculations that were flipped once.
        stopped: where tracing stopped when the last one was flipped.
        blind: sites where only the bytecode suggests the value.
    """

    values: dict[Site, tuple[int, bool]] = field(default_factory=dict)
    tried: list[Speculation] = field(default_factory=list)
    stopped: object = ""
    blind: set[Site] = field(default_factory=set)

    def likely(self, site: Site, occurrence: int, value: bool) -> bool:
        """The value to take for granted, `value` being what it would be otherwise."""
        start, flipped = self.values.get(site, (occurrence + 1, value))
        return flipped if occurrence >= start else value

    def flip(
        self, speculations: Sequence[Speculation], stopped: object, *, last: bool = True
    ) -> bool:
        """Take another path; False if there is none left to try.

        Args:
            speculations: those of the attempt that failed, in the order of the program.
            stopped: where it did.
            last: False if something else is tried where no speculation is left.
        """
        if self.tried and stopped == self.stopped:
            self.values.pop(self.tried[-1].site, None)
        known = {(known.site, known.occurrence) for known in self.tried}
        left = [
            each
            for each in speculations
            if not (each.firm or each.by_chance) and (each.site, each.occurrence) not in known
        ]
        if not left or len(self.tried) >= _MOST:
            if last:
                self.values.clear()  # neither way traces to the end
            return False
        self.tried.append(left[-1])
        self.stopped = stopped
        self.values[left[-1].site] = left[-1].occurrence, not left[-1].likely
        return True

    def remember(self, history: dict[Site, History]) -> None:
        """Later compilations begin with what worked."""
        for site, (occurrence, value) in self.values.items():
            known = history.setdefault(site, History())
            if known.likely(occurrence) is not value:
                known.flip(occurrence, value)
                known.forced = True
