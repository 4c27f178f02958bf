"""Numbers that the arms of a branch give, one of which the graph selects: `k = 2 if c else 3`.

The number becomes a symbol of Dynamo's, as that of `.item()` does, with the arithmetic of a Python
number. Both arms' numbers are known, so nothing depends on which one it is but the values. An arm
may count: `n = n + 1 if c else n`, where `n` was selected before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from graphmend_bc.dynamo.graph.emit import as_tensor, call, method
from graphmend_bc.dynamo.symbols.captures import start_capturing
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused

_DTYPES: Final = (int, float)
_LARGEST: Final = 2**31
"""Integers below it stay exact in 64 bits through a product."""


@dataclass(slots=True, eq=False)
class SelectedNumbers(Feature):
    """The integers that the graph selects.

    Attributes:
        bounds: the least and the largest that each symbol may be.
    """

    bounds: dict[sympy.Symbol, ValueRanges[Any]] = field(default_factory=dict)


def are_selectable(trace: Trace, left: VariableTracker, right: VariableTracker) -> bool:
    """True for two different numbers of one type, int or float.

    Integers may have been selected before, or be computed from such.

    Args:
        trace: the attempt that is running.
        left, right: what the arms give.
    """
    if left.is_python_constant() and right.is_python_constant():
        one, two = left.as_python_constant(), right.as_python_constant()
        if type(one) is not type(two) or type(one) not in _DTYPES or repr(one) == repr(two):
            return False
        return all(map(_is_plain, (one, two)))
    return left is not right and all(_bounds(trace, side) is not None for side in (left, right))


def _is_plain(number: float) -> bool:
    """False for what a symbol is not exact for: those of floats are finite, and have no zero."""
    if isinstance(number, int):
        return abs(number) < _LARGEST
    return math.isfinite(number) and number != 0


def _bounds(trace: Trace, value: VariableTracker) -> ValueRanges[Any] | None:
    """Between what an integer is; None if it is no integer, or may be large."""
    if value.is_python_constant():
        number = value.as_python_constant()
        found = ValueRanges(number, number) if type(number) is int else None
    else:
        found = _bounds_of_symbols(trace, value)
    if found is None or not (found.lower > -_LARGEST and found.upper < _LARGEST):
        return None
    return found


def _bounds_of_symbols(trace: Trace, value: VariableTracker) -> ValueRanges[Any] | None:
    known = trace.known(SelectedNumbers)
    if known is None or type(value) is not SymNodeVariable or value.python_type() is not int:
        return None
    expression = value.sym_num.node.expr
    if not expression.free_symbols <= known.bounds.keys():
        return None
    return bound_sympy(expression, known.bounds)


def selected(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    predicate: TensorVariable,
    left: VariableTracker,
    right: VariableTracker,
) -> VariableTracker:
    """The number that the graph selects.

    Args:
        tx: translator of the frame that has the branch.
        compilation: what is being compiled.
        predicate: a 0-dim bool tensor.
        left, right: the numbers for True and False.

    Raises:
        Refused: Dynamo makes no symbol of it.
    """
    start_capturing(tx, compilation)
    is_float = left.is_python_constant() and type(left.as_python_constant()) is float
    dtype = torch.float64 if is_float else torch.int64
    device = predicate.as_proxy().node.meta["example_value"].device
    sides = [
        method(tx, "to", as_tensor(tx, side.as_proxy(), dtype), device) for side in (left, right)
    ]
    chosen = call(tx, "where", predicate, *sides)
    number: VariableTracker = chosen.call_method(tx, "item", [], {})
    if not isinstance(number, SymNodeVariable):
        raise Refused("arms-differ-in-value", "Dynamo makes no symbol of the number.")
    between = [_bounds(compilation.trace, side) for side in (left, right)]
    if between[0] is not None and between[1] is not None:
        symbol = number.sym_num.node.expr
        compilation.trace.of(SelectedNumbers).bounds[symbol] = between[0] | between[1]
    return number
