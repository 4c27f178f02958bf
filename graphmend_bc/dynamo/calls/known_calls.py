"""Calls of functions that are known by identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, real_object
from graphmend_bc.dynamo.calls.markers import Handler
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Marker

Understand = Callable[
    [
        "KnownCalleeVariable",
        InstructionTranslatorBase,
        object,
        list[VariableTracker],
        dict[str, VariableTracker],
    ],
    VariableTracker | None,
]
"""From the callee, the translator, the function and its arguments to the value of the call; None
if it is another function. It may raise `Refused`."""


def known_call(strategy: str, understand: Understand) -> Handler:
    """The handler of a rule for calls of known functions.

    Args:
        strategy: the rule's.
        understand: gives the value of a call.
    """

    def handle(
        tx: InstructionTranslatorBase,
        compilation: Compilation,
        marker: Marker,
        args: list[VariableTracker],
    ) -> VariableTracker:
        return KnownCalleeVariable(marker, args[0], compilation, strategy, understand)

    return handle


class KnownCalleeVariable(MarkedCalleeVariable):
    """The callee of a call that is understood if the function is one of those known."""

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        "strategy",
        "understand",
        *MarkedCalleeVariable._nonvar_fields,
    }

    def __init__(
        self,
        marker: Marker,
        callee: VariableTracker,
        compilation: Compilation,
        strategy: str,
        understand: Understand,
        **kwargs: Any,
    ) -> None:
        super().__init__(marker.site, callee, compilation, **kwargs)
        self.strategy = strategy
        self.understand = understand

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """What the function gives, or None if it is not known."""
        if tx.export:
            raise Refused("under-export")
        value = self.understand(self, tx, real_object(self.callee), args, kwargs)
        if value is not None:
            self.compilation.trace.used[self.site] = self.strategy
        return value
