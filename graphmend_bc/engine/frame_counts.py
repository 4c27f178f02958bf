"""What is counted of one mended frame."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphmend_bc.reporting.speculation_stats import Tally


@dataclass(slots=True)
class FrameCounts:
    """The counts that say whether mending a frame pays.

    Attributes:
        compiled: how often it was compiled with a mend.
        changes: how often that was thrown away because checks failed.
        tallies: its graphs that count their calls.
    """

    compiled: int = 0
    changes: int = 0
    tallies: list[Tally] = field(default_factory=list)

    @property
    def calls(self) -> int:
        """How often its graphs ran that count their calls."""
        return sum(tally.calls for tally in self.tallies)
