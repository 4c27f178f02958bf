"""What Dynamo hands to whatever stands for a callee: short names, and a question about it."""

from __future__ import annotations

from collections.abc import Callable

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

Translator = InstructionTranslatorBase
"""What traces a frame."""

Args = list[VariableTracker]
"""Positional arguments."""

Keywords = dict[str, VariableTracker]
"""Arguments by name."""


def holds_any(given: object, is_meant: Callable[[VariableTracker], bool]) -> bool:
    """Whether some variable among arguments, or inside of one of them, is meant.

    Args:
        given: variables, in any nesting of containers.
        is_meant: asked of each variable.
    """
    found: list[VariableTracker] = []

    def visit(value: VariableTracker) -> None:
        if is_meant(value):
            found.append(value)

    VariableTracker.visit(visit, given)
    return bool(found)
