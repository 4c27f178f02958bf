"""Mark the operands of an instruction, or make a call of it.

x[a:b]               becomes  x[slice(*MarkedOperands(site, rule)((a, b)))]
for e in rows: ...   becomes  for e in MarkedOperands(site, rule)((rows,))[0]: ...
x[key]               becomes  CalledOperation(site, rule, getitem)((x, key))
x.name               becomes  CalledOperation(site, rule, GetAttribute("name"))((x,))
x @ y                becomes  CalledOperation(site, rule, matmul)((x, y))
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.producers import pushes_pair
from graphmend_bc.code.assemble import Emit
from graphmend_bc.code.listing import Op, name_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.calls import CallWriter
from graphmend_bc.runtime import (
    CalledOperation,
    GetAttribute,
    MarkedOperands,
    SetAttribute,
    Site,
    set_item,
)

SLICES = facts.op_set("BUILD_SLICE", "BINARY_SLICE", "STORE_SLICE")


def is_subscript(op: Op) -> bool:
    """True for an op that fetches an item by its key."""
    return op.name == facts.SUBSCRIPT and getattr(op.arg, "name", "SUBSCR") == "SUBSCR"


def binary_operator(op: Op) -> Callable[..., Any] | None:
    """What an op does that computes with two operands, such as `@` and `+=`; None for another."""
    if op.name != "BINARY_OP":
        return None
    name: str = getattr(op.arg, "name", "")
    prefix = "i" if name.startswith("INPLACE_") else ""
    found = _OPERATORS.get(name.removeprefix("INPLACE_"))
    return None if found is None else getattr(operator, f"__{prefix}{found}__")


_OPERATORS = {
    "ADD": "add",
    "AND": "and",
    "FLOOR_DIVIDE": "floordiv",
    "LSHIFT": "lshift",
    "MATRIX_MULTIPLY": "matmul",
    "MULTIPLY": "mul",
    "OR": "or",
    "POWER": "pow",
    "REMAINDER": "mod",
    "RSHIFT": "rshift",
    "SUBTRACT": "sub",
    "TRUE_DIVIDE": "truediv",
    "XOR": "xor",
}


def write_marked_operands(op: Op, site: Site, rule: str, writer: CallWriter) -> list[Emit]:
    """The op, with its operands on top of the stack marked.

    Args:
        op: it makes a slice, or begins a loop.
        site: its site.
        rule: the name of the rule.
        writer: for its place.

    Raises:
        Refused: an instruction of another kind.
    """
    mark = MarkedOperands(site, rule)
    if op.name == "GET_ITER":
        return [
            writer.emit("BUILD_TUPLE", 1),
            *writer.callable_under_top(mark),
            *writer.call(1),
            writer.emit("UNPACK_SEQUENCE", 1),
            writer.emit(op.name, op.arg),
        ]
    if op.name not in SLICES:
        raise Refused("unhandled-instruction", f"The operands of {op.name} are not marked.")
    count = op.arg if op.name == "BUILD_SLICE" else 2
    return [
        writer.emit("BUILD_TUPLE", count),
        *writer.callable_under_top(mark),
        *writer.call(1),
        writer.emit("UNPACK_SEQUENCE", count),
        writer.emit("SWAP", count),  # two or three values come off a tuple the other way round
        writer.emit(op.name, op.arg),
    ]


def write_operation(op: Op, site: Site, rule: str, writer: CallWriter) -> list[Emit]:
    """A call in place of the op.

    Args:
        op: it fetches or sets an item or an attribute, or computes with two operands.
        site, rule, writer: as for `write_marked_operands`.

    Raises:
        Refused: an instruction of another kind.
    """
    function: Callable[..., Any]
    count, after = 2, []
    if is_subscript(op):
        function = operator.getitem
    elif op.name == "STORE_ATTR":
        function, after = SetAttribute(op.arg), [writer.emit("POP_TOP")]
    elif op.name == "STORE_SUBSCR":
        function, count, after = set_item, 3, [writer.emit("POP_TOP")]
    elif op.name in ("LOAD_ATTR", "LOAD_METHOD"):
        function, count = GetAttribute(name_of(op.arg)), 1
        after = writer.as_callee() if pushes_pair(op) else []
    elif (found := binary_operator(op)) is not None:
        function = found
    else:
        raise Refused("unhandled-instruction", f"{op.name} does not become a call.")
    call = writer.callable_under_top(CalledOperation(site, rule, function))
    return [writer.emit("BUILD_TUPLE", count), *call, *writer.call(1), *after]
