"""The outputs of a graph that say whether its speculations were wrong.

On an accelerator they are put together there, so that one transfer asks for all. On the CPU there
is nothing to transfer: reading a number takes a tenth of what an operator takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class CheckOutputs:
    """What the last outputs of a graph mean.

    Attributes:
        right: for each speculation the truth value that its output has if the speculation was not
            wrong. If empty, the last output is whether any was wrong, and the one before it which.
    """

    right: tuple[bool, ...] = ()

    def wrong(self, results: Sequence[Any]) -> Sequence[int]:
        """Which speculations were wrong, by their numbers.

        Args:
            results: all outputs of the graph.
        """
        if not self.right:
            return _true(results[-2].tolist()) if results[-1] else ()
        found = tuple(map(bool, results[-len(self.right) :]))
        if found == self.right:
            return ()
        return _true(a is not b for a, b in zip(found, self.right, strict=True))


def _true(values: Any) -> Sequence[int]:
    return [i for i, value in enumerate(values) if value]
