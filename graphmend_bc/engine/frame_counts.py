"""What is counted of one mended frame."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FrameCounts:
    """The counts that say whether mending a frame pays.

    Attributes:
        compiled: how often it was compiled with a mend.
        changes: how often that was thrown away because checks failed.
        asserts: whether an `assert` on a tensor is mended in it.
    """

    compiled: int = 0
    changes: int = 0
    asserts: bool = False

    def note_compiled(self, *, asserts: bool) -> None:
        """It was compiled with a mend once more."""
        self.compiled += 1
        self.asserts |= asserts
