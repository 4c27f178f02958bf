"""Calls of functions that are known by identity."""

from __future__ import annotations

import itertools
from types import MappingProxyType, MethodDescriptorType
from typing import Final

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.asking import answer
from graphmend_bc.dynamo.callees import MarkedCalleeVariable, real_object
from graphmend_bc.dynamo.flags import block_of
from graphmend_bc.dynamo.groups import grouped
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
        if isinstance(function, MethodDescriptorType) and function in _COPIES:
            copied = args[0].realize() if len(args) == 1 and not kwargs else None
            # A subclass may have a method of its own, which the function does not call.
            if copied is not None and copied.python_type() is _COPIES[function]:
                trace.used[self.site] = "copy"
                return copied.call_method(tx, "copy", [], {})
        if function is itertools.groupby and (groups := grouped(tx, args, kwargs)) is not None:
            trace.used[self.site] = "polyfill"
            return groups
        block = block_of(self, function, args, kwargs)
        if block is not None:
            trace.used[self.site] = "flags"
        return block


_COPIES: Final = MappingProxyType({kind.copy: kind for kind in (dict, list, set)})
"""From the function that copies to the type that it copies."""
