"""Numbers that the arms of a branch give, one of which the graph selects: `k = 2 if c else 3`.

The number becomes a symbol of Dynamo's, as that of `.item()` does, with the arithmetic of a Python
number. Both arms' numbers are known, so nothing depends on which one it is but the values.
"""

from __future__ import annotations

import math
from typing import Final

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.graph.emit import as_tensor, call, method
from graphmend_bc.dynamo.symbols.captures import start_capturing
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused

_DTYPES: Final = {int: torch.int64, float: torch.float64}
_LARGEST: Final = 2**31
"""Integers below it stay exact in 64 bits through a product."""


def are_selectable(left: VariableTracker, right: VariableTracker) -> bool:
    """True for two different numbers of one type, int or float.

    Args:
        left, right: what the arms give.
    """
    if not (left.is_python_constant() and right.is_python_constant()):
        return False
    one, two = left.as_python_constant(), right.as_python_constant()
    if type(one) is not type(two) or type(one) not in _DTYPES or repr(one) == repr(two):
        return False
    return all(map(_is_plain, (one, two)))


def _is_plain(number: float) -> bool:
    """False for what a symbol is not exact for: those of floats are finite, and have no zero."""
    if isinstance(number, int):
        return abs(number) < _LARGEST
    return math.isfinite(number) and number != 0


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
    numbers = [side.as_python_constant() for side in (left, right)]
    dtype = _DTYPES[type(numbers[0])]
    device = predicate.as_proxy().node.meta["example_value"].device
    sides = [method(tx, "to", as_tensor(tx, number, dtype), device) for number in numbers]
    chosen = call(tx, "where", predicate, *sides)
    number: VariableTracker = chosen.call_method(tx, "item", [], {})
    if not isinstance(number, SymNodeVariable):
        raise Refused("arms-differ-in-value", "Dynamo makes no symbol of the number.")
    return number
