"""`assert` statements on tensors: branches that raise, or Dynamo's operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed


@dataclass(slots=True, eq=False)
class Assertions(Feature):
    """The assertions of an attempt.

    Attributes:
        met: where one was met that is a branch, by code object and offset.
        by_dynamo: whether Dynamo made operators of some.
    """

    met: set[tuple[CodeType, int]] = field(default_factory=set)
    by_dynamo: bool = False

    def rolls_back(self) -> RollbackNeed:
        return RollbackNeed.WORTH_COPIES if self.by_dynamo else RollbackNeed.NOT_NEEDED


def detect_assert(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`_detect_and_normalize_assert_statement`: an `assert` is a branch that raises."""

    def detect(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_assert, compilation = stock(self, *args, **kwargs), current()
        if not is_assert or compilation is None or not compilation.may_mend:
            return is_assert
        assertions = compilation.trace.of(Assertions)
        if not compilation.exact_asserts:
            assertions.by_dynamo = True
            return True
        self.pop()  # the message
        if (place := instruction_of(self)) is not None:
            assertions.met.add(place)
        return False

    return detect
