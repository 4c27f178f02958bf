"""How Python compares the keys of a sort, where some are tensors or are read from tensors."""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import Any, Final

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.graph.emit import as_tensor, method
from graphmend_bc.dynamo.host_values.host_value import ComputedVariable, ReadVariable
from graphmend_bc.dynamo.predication.site_tracer import SiteTracer
from graphmend_bc.dynamo.predication.tensor_predicates import numbers_compared, wide
from graphmend_bc.dynamo.symbols.captures import is_unknown
from graphmend_bc.dynamo.trace.tracing import inline, is_true
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Speculate

_ROWS: Final = (ListVariable, TupleVariable)
_PLAIN: Final = (bool, int, float, str, bytes, type(None))
_OPERATORS: Final = MappingProxyType({"lt": operator.lt, "eq": operator.eq})
_REFLECTED: Final = MappingProxyType({"lt": "gt", "eq": "eq"})


class KeyOrder:
    """Compares keys, and asks the tensors among them what eager Python asks them.

    What a tensor answers is assumed, and checked after the graph.

    Args:
        tracer: of the sort.
    """

    def __init__(self, tracer: SiteTracer) -> None:
        self.tracer = tracer
        self.tx = tracer.tx

    def is_less(self, left: VariableTracker, right: VariableTracker) -> bool:
        """`left < right`.

        Raises:
            Refused: it is not known what the comparison does, or it raises.
        """
        left, right = left.realize(), right.realize()
        if not _are_rows(left, right):
            return self._holds("lt", left, right)
        rows = (left.items, right.items)  # type: ignore[attr-defined]
        for one, other in zip(*rows, strict=False):
            if not self._are_equal(one, other):
                return self.is_less(one, other)
        return len(rows[0]) < len(rows[1])

    def _are_equal(self, left: VariableTracker, right: VariableTracker) -> bool:
        """What a list or tuple takes for equal: the same object, or `left == right`."""
        left, right = left.realize(), right.realize()
        if self._are_same(left, right):
            return True
        if not _are_rows(left, right):
            return self._holds("eq", left, right)
        rows = (left.items, right.items)  # type: ignore[attr-defined]
        if type(left) is ListVariable and len(rows[0]) != len(rows[1]):
            return False
        equal = all(self._are_equal(one, other) for one, other in zip(*rows, strict=False))
        return equal and len(rows[0]) == len(rows[1])

    def _are_same(self, left: VariableTracker, right: VariableTracker) -> bool:
        if left is right:
            return True
        if _is_plain(left) and _is_plain(right):
            values = (left.as_python_constant(), right.as_python_constant())
            if all(value != value for value in values):
                raise Refused("call-not-traced", "Whether one NaN is another one is not known.")
            return False  # equal ones are found by `==`
        if type(left) is type(right) is TensorVariable:
            same = BuiltinVariable(operator.is_).call_function(self.tx, [left, right], {})
            return bool(same.as_python_constant())
        return False

    def _holds(self, name: str, left: VariableTracker, right: VariableTracker) -> bool:
        """The truth value of a comparison of two values that are no lists or tuples."""
        sides = (left, right)
        if all(map(_is_plain, sides)):
            try:
                return bool(_OPERATORS[name](*(side.as_python_constant() for side in sides)))
            except TypeError as error:
                raise Refused("call-not-traced", f"Comparing keys raises: {error}.") from error
        if all(_is_plain(side) or _is_size(side) for side in sides):
            compared = BuiltinVariable(_OPERATORS[name]).call_function(self.tx, [left, right], {})
            return bool(inline(self.tx, is_true, compared).as_python_constant())
        truth = self._truth(name, left, right)
        return bool(self.tracer.speculate(truth, Speculate(self.tracer.site)).as_python_constant())

    def _truth(self, name: str, left: VariableTracker, right: VariableTracker) -> TensorVariable:
        """The comparison as a tensor."""
        one, other = self._number(left), self._number(right)
        if one is not None:
            return numbers_compared(self.tx, name, one, other or right)
        if other is not None:
            return numbers_compared(self.tx, _REFLECTED[name], other, left)
        if type(left) is TensorVariable and _is_operand(right):
            return method(self.tx, name, left, right)
        if type(right) is TensorVariable and _is_operand(left):
            return method(self.tx, _REFLECTED[name], right, left)
        kinds = " and ".join(side.python_type().__name__ for side in (left, right))
        raise Refused("call-not-traced", f"Two keys are compared that are {kinds}.")

    def _number(self, value: VariableTracker) -> TensorVariable | None:
        """A number that is read from a tensor, as a tensor of float64 or int64.

        Returns:
            None for other values.

        Raises:
            Refused: it is computed in a way that the graph may not follow.
        """
        if isinstance(value, ReadVariable) and value.method == "item":
            assert isinstance(value.tensor, TensorVariable)
            return wide(self.tx, value.tensor)
        if isinstance(value, ComputedVariable) and len(value.operands) == 1:
            number = self._number(value.operands[0].realize())
            if number is not None and value.function is float:
                return method(self.tx, "to", number, torch.float64)
            if number is not None and value.function is operator.neg and value.kind is float:
                return method(self.tx, "neg", number)
        if is_unknown(value) and (kind := value.python_type()) in (int, float):
            dtype = torch.float64 if kind is float else torch.int64
            return as_tensor(self.tx, value.as_proxy(), dtype)
        return None


def _are_rows(left: VariableTracker, right: VariableTracker) -> bool:
    """True for two lists, or two tuples, of no other class."""
    if type(left) is not type(right) or type(left) not in _ROWS:
        return False
    return left.python_type() is right.python_type() in (list, tuple)


def _is_plain(value: VariableTracker) -> bool:
    return type(value) is ConstantVariable and type(value.value) in _PLAIN


def _is_size(value: VariableTracker) -> bool:
    return isinstance(value, SymNodeVariable) and not is_unknown(value)


def _is_operand(value: VariableTracker) -> bool:
    """True for what a tensor compares itself with: another one, or a number."""
    number: Any = value.as_python_constant() if _is_plain(value) else None
    return type(value) is TensorVariable or isinstance(number, (int, float))
