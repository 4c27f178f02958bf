"""What is counted of one mended frame."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(slots=True)
class FrameCounts:
    """The counts that say whether mending a frame pays.

    Attributes:
        compiled: how often it was compiled with a mend.
        changes: how often that was thrown away because checks failed.
        asserts: whether an `assert` on a tensor is mended in it.
        stored: names of the sources of integers that it stores in objects.
    """

    compiled: int = 0
    changes: int = 0
    asserts: bool = False
    stored: frozenset[str] = frozenset()

    def note_compiled(self, *, asserts: bool, stored: AbstractSet[str]) -> None:
        """It was compiled with a mend once more."""
        self.compiled += 1
        self.asserts |= asserts
        self.stored |= stored
