"""Numbers that are known only at run time: what is computed with them is what the program says.

A kernel that divides ints by zero stops the process, and one that divides floats goes on; Python
raises. So a divisor must be known not to be zero.

Dynamo's symbol for a float is a finite real number to sympy, which simplifies by the laws of
those: `v != v` becomes False, `v - v` 0, `v + 0.1 + 0.2` is `v + 0.3`. A float may be NaN or
infinite, and is rounded; one that is made of an int, too. So an operation with a float has to be
the one that was asked for, on symbols and numbers and not on results of others; where it is not,
the symbols are given up.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, cast

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx import Node, Proxy
from torch.fx.experimental.symbolic_shapes import (
    expect_true,
    statically_known_false,
    statically_known_true,
)
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatPow,
    FloatTrueDiv,
    FloorToInt,
    IntTrueDiv,
    Max,
    Min,
    OpaqueUnaryFn_sqrt,
    RoundToInt,
    ToFloat,
    TruncToInt,
)

from graphmend_bc.dynamo.graph.emit import as_tensor, call, method
from graphmend_bc.dynamo.symbols.captures import Captures
from graphmend_bc.dynamo.symbols.symbolic_powers import ROUNDED, is_closed, of_power, value_of
from graphmend_bc.dynamo.trace.compilation import SiteRefused, current
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_RELATIONS: Final[Mapping[Any, tuple[Any, Any]]] = MappingProxyType(
    {
        operator.lt: (sympy.Lt, sympy.Gt),
        operator.le: (sympy.Le, sympy.Ge),
        operator.gt: (sympy.Gt, sympy.Lt),
        operator.ge: (sympy.Ge, sympy.Le),
        operator.eq: (sympy.Eq, sympy.Eq),
        operator.ne: (sympy.Ne, sympy.Ne),
    }
)
"""For each comparison sympy's, and that of the operands the other way round."""

_INTEGERS: Final = MappingProxyType(
    {CeilToInt: "ceil", FloorToInt: "floor", RoundToInt: "round", TruncToInt: "trunc"}
)
"""For each of Dynamo's ways to make an int of a float, the method that rounds a tensor so."""

_SUMS: Final = (operator.add, operator.iadd)
_DIFFERENCES: Final = (operator.sub, operator.isub)
_PRODUCTS: Final = (operator.mul, operator.imul)
_QUOTIENTS: Final = (operator.truediv, operator.itruediv)

_DIVIDING: Final = (*_QUOTIENTS, operator.floordiv, operator.ifloordiv, operator.mod, operator.imod)
_LIMITED: Final = (operator.pow, operator.ipow, operator.lshift, operator.ilshift)
"""Operations on ints that want a second one which is not negative."""

_LARGEST: Final = 2**62
_EXACT: Final = 2**52
"""No int that is no float is rounded to one up to here."""


def symbol_made(stock: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
    """`SymNodeVariable.create`, for the results of operations on numbers known only at run time."""

    def create(
        tx: InstructionTranslatorBase, proxy: Proxy, *args: Any, **kwargs: Any
    ) -> VariableTracker:
        made = stock(tx, proxy, *args, **kwargs)
        for operand in proxy.node.all_input_nodes:
            if ROUNDED in operand.meta and isinstance(made, SymNodeVariable):
                made = of_power(made, _has_its_form(proxy.node))
                break
        compilation = current()
        captures = None if compilation is None else compilation.trace.known(Captures)
        if captures is None:
            return made
        symbols, result = captures.symbols, _expression(value_of(proxy.node))
        _check(symbols, proxy.node)
        rounds = result.func in _INTEGERS and result.args[0] in symbols
        if rounds and not result.args[0].is_integer:
            number = Proxy(cast(Node, proxy.node.args[0]), proxy.tracer)
            return _as_int(tx, number, _INTEGERS[result.func])
        return made

    return create


def _check(symbols: Mapping[sympy.Basic, Site], node: Node) -> None:
    """Refuse a result that may be another one than that of the program's operation."""
    values = [value_of(leaf) for leaf in tree_leaves((node.args, node.kwargs))]
    if any(isinstance(value, torch.Tensor) for value in values):
        return
    operands, result = list(map(_expression, values)), value_of(node)
    met = {s for operand in operands for s in operand.free_symbols if s in symbols}
    if not met:
        return
    finite = all(s.is_integer for s in met)
    exact = not _may_raise(node.target, values)
    rounds = finite and len(values) == 1 and isinstance(result, torch.SymInt)
    floats = any(isinstance(value, (float, torch.SymFloat)) for value in (*values, result))
    if not rounds and (floats or not finite):
        exact &= _is_as_written(node.target, operands, _expression(result))
        exact &= finite or _is_open(result)
    if not exact:
        name = getattr(node.target, "__name__", node.target)
        detail = f"'{name}' of a number known only at run time may be computed as something else."
        sites = dict.fromkeys(symbols[symbol] for symbol in met)
        raise SiteRefused(Refused("capture-fails", detail), *sites)


def _may_raise(function: Any, values: Sequence[Any]) -> bool:
    """True for an operation that fails for some numbers."""
    if function in _DIVIDING:
        return not statically_known_true(values[1] != 0)
    if function in _LIMITED:
        return type(values[1]) is not int or values[1] < 0
    name = getattr(function, "__name__", str(function)).removeprefix("sym_")
    return hasattr(math, name) and name not in ("ceil", "floor", "trunc")


def _has_its_form(node: Node) -> bool:
    leaves = tree_leaves((node.args, node.kwargs))
    operands = [_expression(value_of(leaf)) for leaf in leaves]
    result = _expression(value_of(node))
    if result.func in (Max, Min):  # a power is not NaN
        return set(result.args) == set(map(_as_float, operands))
    if result.func is OpaqueUnaryFn_sqrt:
        return bool(result.args == tuple(operands))
    if result.func is FloatPow:
        return bool(result.args == tuple(map(_as_float, operands)))
    return _is_as_written(node.target, operands, result)


def _as_int(tx: InstructionTranslatorBase, number: Proxy, rounding: str) -> VariableTracker:
    """The int that a float becomes; the graph raises if it becomes none, or a very large one.

    A kernel that makes it of the float would not raise.
    """
    value = method(tx, rounding, as_tensor(tx, number, torch.float64))
    small = call(tx, "lt", method(tx, "abs", value), float(_LARGEST))
    whole = method(tx, "long", call(tx, "where", small, value, -2.0 * _LARGEST))
    known = whole.call_method(tx, "item", [], {})
    expect_true(value_of(known.as_proxy().node) > -_LARGEST)
    return known


def _expression(value: Any) -> sympy.Basic:
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value.node.expr
    return sympy.sympify(value) if isinstance(value, (int, float)) else sympy.S.NaN


def _is_open(result: Any) -> bool:
    """False for a truth value that Dynamo would decide by the range of a real number."""
    return not isinstance(result, torch.SymBool) or not (
        statically_known_true(result) or statically_known_false(result)
    )


def _is_as_written(function: Any, operands: Sequence[sympy.Basic], result: sympy.Basic) -> bool:
    """True for an operation that sympy has written down, and that nobody is going to rearrange."""
    if len(operands) == 1 and function is torch.sym_float:
        return bool(result == _as_float(operands[0]))
    if not all(map(_is_plain, operands)):
        return False
    if len(operands) == 1:
        return function is operator.neg or result.func is sympy.Abs or result.func in _INTEGERS
    a, b = map(_as_float, operands)
    if function in _RELATIONS:
        same, turned = _RELATIONS[function]
        forms = ((same, (a, b)), (turned, (b, a)))
        return _compare_exactly(operands) and (result.func, result.args) in forms
    if function in _SUMS:
        return result.is_Add and set(result.args) == {a, b}
    if function in _DIFFERENCES:
        return result.is_Add and set(result.args) == {a, -b}
    if function in _PRODUCTS:
        return result.is_Mul and set(result.args) == {a, b}
    forms = ((FloatTrueDiv, (a, b)), (IntTrueDiv, tuple(operands)))
    return function in _QUOTIENTS and (result.func, result.args) in forms


def _is_plain(operand: sympy.Basic) -> bool:
    """True for a symbol, an int or a finite number; a backend may expand what floats made."""
    known = operand.is_Symbol or operand.is_integer or is_closed(operand)
    return bool(known or (operand.is_number and operand.is_finite))


def _as_float(operand: sympy.Basic) -> sympy.Basic:
    return ToFloat(operand) if operand.is_integer else operand


def _compare_exactly(operands: Sequence[sympy.Basic]) -> bool:
    """False if an int may be rounded to the float it is compared with; Python does not round it."""
    small = any(operand.is_number and abs(operand) <= _EXACT for operand in operands)
    return small or not any(operand.is_integer for operand in operands)
