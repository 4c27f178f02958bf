"""`copy.copy` of a plain dict, list or set: their own method, which Dynamo traces."""

from __future__ import annotations

from types import MappingProxyType, MethodDescriptorType
from typing import Final

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.trace.known_calls import KnownCalleeVariable, known_call

_COPIES: Final = MappingProxyType({kind.copy: kind for kind in (dict, list, set)})
"""From the function that copies to the type that it copies."""


def _copied(
    callee: KnownCalleeVariable,
    tx: InstructionTranslatorBase,
    function: object,
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> VariableTracker | None:
    # Since CPython 3.14 it is called as a method of the type.
    if (read := facts.method_read(callee.callee.realize())) is not None and read[1] == "copy":
        owner = read[0].realize()
        kind = owner.as_python_constant() if owner.is_python_constant() else None
        function = next((method for method, known in _COPIES.items() if known is kind), function)
    if not isinstance(function, MethodDescriptorType) or function not in _COPIES:
        return None
    copied = args[0].realize() if len(args) == 1 and not kwargs else None
    # A subclass may have a method of its own, which the function does not call.
    if copied is None or copied.python_type() is not _COPIES[function]:
        return None
    return copied.call_method(tx, "copy", [], {})


copied = known_call("copy", _copied)
