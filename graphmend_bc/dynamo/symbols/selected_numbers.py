"""Numbers that the arms of a branch give, one of which the graph selects: `k = 2 if c else 3`.

The number becomes a symbol of Dynamo's, as that of `.item()` does, with the arithmetic of a Python
number. Both arms' numbers are known, so nothing depends on which one it is but the values. An int
and a float become a float, which gives the same where it is combined with floating tensors alone.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, field
from typing import Final

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.emit import as_tensor, call, method
from graphmend_bc.dynamo.graph.fx_nodes import tensors_of
from graphmend_bc.dynamo.symbols.captures import start_capturing
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_DTYPES: Final = {int: torch.int64, float: torch.float64}
_LARGEST: Final = 2**31
"""Integers below it stay exact in 64 bits through a product."""


@dataclass(slots=True, eq=False)
class EitherType(Feature):
    """Symbols of floats that stand for an int or a float.

    Attributes:
        found: the branch of each, and its node.
    """

    found: list[tuple[Site, Node]] = field(default_factory=list)

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """Show that nothing can tell which of the two types it is."""
        for site, node in self.found:
            if node.graph is gm.graph and not all(_combines(user, node) for user in node.users):
                detail = "An int and a float, which not only tensors of floats are combined with."
                raise SiteRefused(Refused("arms-differ-in-type", detail), site)


def _combines(user: Node, number: Node) -> bool:
    """True for an operation of a floating tensor and a number, whose type does not matter."""
    if user.target not in _OPERATIONS or user.kwargs or len(user.args) != 2:
        return False
    others = [arg for arg in user.args if arg is not number]
    tensors = [tensors_of(arg) for arg in others if isinstance(arg, Node)]
    return len(tensors) == 1 and len(tensors[0]) == 1 and tensors[0][0].is_floating_point()


_IN_PLACE: Final = (operator.iadd, operator.isub, operator.imul, operator.itruediv)
_OPERATIONS: Final = {operator.add, operator.sub, operator.mul, operator.truediv, *_IN_PLACE}


def are_selectable(left: VariableTracker, right: VariableTracker) -> bool:
    """True for two different numbers, ints or floats.

    Args:
        left, right: what the arms give.
    """
    if not (left.is_python_constant() and right.is_python_constant()):
        return False
    one, two = left.as_python_constant(), right.as_python_constant()
    if not {type(one), type(two)} <= _DTYPES.keys() or repr(one) == repr(two):
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
    site: Site,
    predicate: TensorVariable,
    left: VariableTracker,
    right: VariableTracker,
) -> VariableTracker:
    """The number that the graph selects.

    Args:
        tx: translator of the frame that has the branch.
        compilation: what is being compiled.
        site: the branch.
        predicate: a 0-dim bool tensor.
        left, right: the numbers for True and False.

    Raises:
        Refused: Dynamo makes no symbol of it.
    """
    start_capturing(tx, compilation)
    numbers = [side.as_python_constant() for side in (left, right)]
    kinds = {type(number) for number in numbers}
    dtype = _DTYPES[float if float in kinds else int]
    device = predicate.as_proxy().node.meta["example_value"].device
    sides = [method(tx, "to", as_tensor(tx, number, dtype), device) for number in numbers]
    chosen = call(tx, "where", predicate, *sides)
    number: VariableTracker = chosen.call_method(tx, "item", [], {})
    if not isinstance(number, SymNodeVariable):
        raise Refused("arms-differ-in-value", "Dynamo makes no symbol of the number.")
    if len(kinds) > 1:
        compilation.trace.of(EitherType).found.append((site, number.as_proxy().node))
    return number
