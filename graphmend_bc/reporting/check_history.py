"""When the checks of a graph failed, over all its calls, in few numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

_MOST: Final = 32
"""Runs of calls that are told apart; when there are more, each two become one."""


@dataclass(slots=True)
class CheckHistory:
    """How many checks failed in each run of calls.

    Attributes:
        width: calls of one run.
        counts: failed checks, by the number of the run.

    Example:
        >>> history = CheckHistory()
        >>> for call in (1, 2, 40):
        ...     history.note(call)
        >>> history.width, history.counts[:2], history.counts[-1]
        (2, [1, 1], 1)
    """

    width: int = 1
    counts: list[int] = field(default_factory=list)

    def note(self, call: int) -> None:
        """A check failed.

        Args:
            call: the number of the call, from 1.
        """
        while (run := (call - 1) // self.width) >= _MOST:
            pairs = [*self.counts, 0]
            self.counts = [a + b for a, b in zip(pairs[::2], pairs[1::2], strict=False)]
            self.width *= 2
        self.counts += [0] * (run + 1 - len(self.counts))
        self.counts[run] += 1

    def spread(self, calls: int, before: int = 0) -> list[tuple[int, int, int]]:
        """The runs of calls in which checks failed.

        Args:
            calls: all calls.
            before: calls of other graphs that count before these.

        Returns:
            Of each run the number of its first and last call and how many checks failed.
        """
        return [
            (before + run * self.width + 1, before + min((run + 1) * self.width, calls), count)
            for run, count in enumerate(self.counts)
            if count
        ]
