"""What the traces of one compilation are given to trace: Dynamo's restarts get the same again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType


@dataclass(slots=True)
class Replacements:
    """The answers to a trace's questions for code, in their order.

    Dynamo finds the place of a graph break again by counting on the way there, and expects the same
    instructions. A plan that was made on the way must not change what comes before it.

    Attributes:
        given: what was asked for, and the code object that was given.
        asked: how many questions the running trace has asked.
    """

    given: list[tuple[object, CodeType | None]] = field(default_factory=list)
    asked: int = 0

    def start_trace(self) -> None:
        """Dynamo traces the frame from its start."""
        self.asked = 0

    def answer(self, question: object, find: Callable[[], CodeType | None]) -> CodeType | None:
        """What an earlier trace was given at the same place; else what is found now.

        Args:
            question: what the trace asks for.
            find: gives the answer if no trace has come by before.
        """
        if self.asked < len(self.given) and self.given[self.asked][0] != question:
            del self.given[self.asked :]  # the trace has taken another way
        if self.asked == len(self.given):
            self.given.append((question, find()))
        self.asked += 1
        return self.given[self.asked - 1][1]
