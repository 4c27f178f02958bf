"""Arguments that are whole numbers: of a tensor without a dimension, its number is used.

What an operator takes is read from the schemas of its overloads, for example
`roll(Tensor self, SymInt[1] shifts, int[1] dims=[])`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
import torch.nn.functional as F

_WHOLE = frozenset({"int", "List[int]", "Optional[int]", "Optional[List[int]]"})
_AS_WELL: Final[Mapping[Any, tuple[int, str]]] = MappingProxyType(
    {torch._C._nn.pad: (1, "pad"), F.interpolate: (1, "size"), "narrow": (2, "start")}
)
"""Functions whose schema does not say it, and names of operators that look the number up."""


def takes_integer(function: Any, place: int | str) -> bool:
    """True if a function of torch's makes a number of a tensor without a dimension.

    Args:
        function: the function, or the name of a tensor's method.
        place: the argument's position, that of the tensor being 0 for a method, or its name.

    Example:
        >>> takes_integer(torch.roll, 1), takes_integer("roll", "shifts")
        (True, True)
        >>> takes_integer("expand", 2), takes_integer("narrow", 5)
        (True, False)
    """
    name = function if isinstance(function, str) else getattr(function, "__name__", "")
    if place in _AS_WELL.get(function, ()) or place in _AS_WELL.get(name, ()):
        return True
    packet = getattr(torch.ops.aten, name, None)
    if packet is None or not (isinstance(function, str) or _is_torchs(function)):
        return False
    schemas = [getattr(packet, o)._schema for o in packet.overloads() if not o.endswith("out")]
    found = {
        str(argument.type)
        for schema in schemas
        for at, argument in enumerate(schema.arguments)
        if place == (argument.name if isinstance(place, str) or argument.kwarg_only else at)
    }
    if not found and isinstance(function, str) and isinstance(place, int):
        return any(map(_takes_any_count, schemas))
    return bool(found & _WHOLE) and found <= _WHOLE | {"str", "Optional[str]"}


def _takes_any_count(schema: torch.FunctionSchema) -> bool:
    """True for `x.expand(2, n)`: a method takes an only argument without its brackets."""
    given = [argument for argument in schema.arguments[1:] if not argument.kwarg_only]
    return len(given) == 1 and str(given[0].type) == "List[int]"


def _is_torchs(function: Any) -> bool:
    """True for a function that is an operator itself, rather than made of some in Python."""
    return function in (
        getattr(home, function.__name__, None)
        for home in (torch._C._VariableFunctions, torch._C._nn)
    )
