"""What one attempt at a frame came to: Dynamo compiled it, or the attempt failed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphmend_bc.dynamo.frames.breaks import Break, break_of


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """Dynamo compiled the frame, or the part of it before a break that was left.

    Attributes:
        result: what its `compile_frame` returned.
    """

    result: Any


@dataclass(frozen=True, eq=False)
class Failed:
    """An attempt ended with an error.

    No variable of a frame that the error's traceback holds may hold it for longer.

    Attributes:
        error: what Dynamo raised, or this library.
    """

    error: Exception

    @cached_property
    def found(self) -> Break | None:
        """The break that the error stands for; None if it is known of no frame of the program."""
        return break_of(self.error)


Outcome = Traced | Failed
