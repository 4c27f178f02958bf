"""`math.pow` of numbers that are symbols, such as `math.pow(beta2, step)` of an optimizer.

Dynamo guards on the numbers, so that a count of steps would have the frame compiled anew in each.
Python's `**` is an operation of the graph. Both ask C's `pow`; they differ where a result is not
finite, or not real, and in what they raise.

sympy takes what is computed with a power for a real number, and Python rounds it: `1 - v + v` may
be less than 1. So each result is closed to sympy, and a guard computes it as the program does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx import Node
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, guard_scalar
from torch.utils._sympy.functions import FloatPow, Identity

ROUNDED: Final = "graphmend_bc_rounded"
"""Marks nodes that were computed with a power."""
_SYMBOLS: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


def power(tx: InstructionTranslatorBase, args: Sequence[VariableTracker]) -> VariableTracker | None:
    """`math.pow(base, exponent)` as an operation of the graph.

    Args:
        tx: translator of the frame that is traced.
        args: of the call.

    Returns:
        None if neither is a symbol, or the power is not between 0 and 1. What is asked of a symbol
        for that becomes a guard.
    """
    numbers = [arg.realize() for arg in args]
    values = [_number(number) for number in numbers]
    if len(values) != 2 or None in values or not any(isinstance(v, _SYMBOLS) for v in values):
        return None
    base, exponent = values
    if free_unbacked_symbols(values) or not base > 0:
        return None
    if not (base <= 1 if exponent >= 0 else base >= 1):
        return None
    floats = [BuiltinVariable(float).call_function(tx, [number], {}) for number in numbers]
    made: VariableTracker = BuiltinVariable(operator.pow).call_function(tx, floats, {})
    if isinstance(made, SymNodeVariable):
        made.proxy.node.meta[ROUNDED] = True
    return made


def of_power(made: SymNodeVariable, is_as_written: bool) -> VariableTracker:
    """What was computed with a power, closed to sympy.

    Args:
        made: Dynamo's variable for the result of an operation.
        is_as_written: whether sympy has written down the operation that was asked for.

    Returns:
        The number itself, which is guarded on, if sympy has something else.
    """
    node = made.proxy.node
    if free_unbacked_symbols(made.sym_num):
        return made
    if not is_as_written:
        number: VariableTracker = ConstantVariable.create(_decided(node))
        return number
    if isinstance(made.sym_num, torch.SymFloat):
        close(made)
    return made


def close(number: SymNodeVariable) -> None:
    """Have what is computed with a float be closed to sympy too, and guards compute it as written.

    Args:
        number: is closed itself.
    """
    node = number.proxy.node
    number.sym_num = node.meta["example_value"] = _closed(number.sym_num.node)
    node.meta[ROUNDED] = True


def _closed(number: SymNode) -> torch.SymFloat:
    expression = Identity(number.expr)
    made: Callable[[SymNode], torch.SymFloat] = torch.SymFloat
    return made(SymNode(expression, number.shape_env, float, number.hint))


def is_closed(expression: sympy.Basic) -> bool:
    """True for what was computed with a power, and for the power."""
    return isinstance(expression, (FloatPow, Identity))


def _decided(node: Node) -> Any:
    """The number that a node has in this call, as Python computes it; its sources are guarded."""
    work, seen = [node], {node}
    while work:
        known = work.pop()
        inputs = [n for n in known.all_input_nodes if isinstance(value_of(n), _SYMBOLS)]
        if not inputs:
            guard_scalar(value_of(known))
        work += [n for n in inputs if n not in seen]
        seen.update(inputs)
    return value_of(node).node.hint


def value_of(leaf: Any) -> Any:
    """What a node stands for while tracing; of anything else, itself."""
    return leaf.meta.get("example_value") if isinstance(leaf, Node) else leaf


def _number(variable: VariableTracker) -> Any:
    """A number, or its symbol; None for anything else."""
    if isinstance(variable, SymNodeVariable):
        return variable.sym_num
    value = variable.as_python_constant() if variable.is_python_constant() else None
    return value if type(value) in (bool, int, float) else None
