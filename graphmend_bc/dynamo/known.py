"""Calls of functions that are known by identity."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.asking import answer
from graphmend_bc.dynamo.callees import MarkedCalleeVariable, real_object
from graphmend_bc.dynamo.flags import block_of
from graphmend_bc.reasons import Refused


class KnownCalleeVariable(MarkedCalleeVariable):
    """The callee of a call that is understood if the function is one of those known."""

    def value(
        self,
        tx: InstructionTranslatorBase,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker | None:
        """What the function gives, or None if it is not known."""
        function = real_object(self.callee)
        if tx.export:
            raise Refused("under-export")
        trace = self.compilation.trace
        if (value := answer(tx, trace, function, bool(args or kwargs))) is not None:
            trace.used[self.site] = "probe"
            return value
        return block_of(self, function, args, kwargs)
