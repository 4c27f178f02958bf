"""What a rule makes of a marked callee, marked operands or an outlined function in a trace.

A rule names a handler. It gets the primitive and the values that the primitive is called with, and
gives the value of that call:

    MarkedCallee       called with the callee; gives what is called in its place
    MarkedOperands     called with a tuple of operands; gives a tuple of as many
    CalledOperation    called with a tuple of operands; gives the instruction's result
    Outlined           called with a function and its arguments; gives its result
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.tracing import as_break, inline
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import (
    CalledOperation,
    GetAttribute,
    Marker,
    Outlined,
    SetAttribute,
    Site,
    set_item,
)

Handler = Callable[
    [InstructionTranslatorBase, Compilation, Marker, list[VariableTracker]], VariableTracker
]


OutlinedHandler = Callable[
    [InstructionTranslatorBase, Compilation, Site, VariableTracker, Sequence[VariableTracker]],
    VariableTracker,
]
"""The value of an outlined function, called with arguments at a site. It may raise `Refused`."""


def outlined(value: OutlinedHandler) -> Handler:
    """The handler of a rule that outlines functions; a refusal is a break there.

    Args:
        value: gives the value of the call.
    """

    def handle(
        tx: InstructionTranslatorBase,
        compilation: Compilation,
        marker: Marker,
        args: list[VariableTracker],
    ) -> VariableTracker:
        try:
            return value(tx, compilation, marker.site, args[0], args[1:])
        except Refused as refused:
            raise as_break(compilation, marker.site, refused) from refused

    return handle


def marker_as_python(
    tx: InstructionTranslatorBase, marker: Marker, args: list[VariableTracker]
) -> VariableTracker:
    """Trace what Python would do.

    Args:
        tx: translator of the frame that calls the primitive.
        marker: the primitive.
        args: what it is called with.
    """
    if isinstance(marker, Outlined):
        return args[0].call_function(tx, args[1:], {})
    if not isinstance(marker, CalledOperation):
        return args[0]
    operands = args[0].unpack_var_sequence(tx)
    if isinstance(marker.function, GetAttribute):
        return read_attribute(tx, operands[0], marker.function.name)
    if marker.function is set_item:
        return inline(tx, set_item, *operands)
    if not isinstance(marker.function, SetAttribute):
        return BuiltinVariable(marker.function).call_function(tx, operands, {})
    value, owner = operands
    name = ConstantVariable.create(marker.function.name)
    return inline(tx, _assign, owner, name, value)


def read_attribute(
    tx: InstructionTranslatorBase, owner: VariableTracker, name: str
) -> VariableTracker:
    """Trace the reading of an attribute."""
    read: VariableTracker = VariableTracker.build(tx, getattr)
    return read.call_function(tx, [owner, ConstantVariable.create(name)], {})


def _assign(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)
