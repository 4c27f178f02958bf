"""From the number an instruction carries to what it stands for: a name, a constant, an operator."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import CodeType
from typing import Any, Final

from bytecode.instr import (
    UNSET,
    BinaryOp,
    CellVar,
    CommonConstant,
    Compare,
    FormatValue,
    FreeVar,
    Intrinsic1Op,
    Intrinsic2Op,
    SpecialMethod,
)

from graphmend_bc.code import facts


class Tables:
    """The tables of one code object that instruction arguments index.

    Attributes:
        consts: constants.
        names: names of globals, attributes and modules.
        slots: the frame's slots as fast ops see them: locals (also those that are cells) by name,
            then the other cells, then free variables.
        loads: the same slots as LOAD_FAST sees them: from 3.13 on it pushes a cell itself, and code
            never reads a local that is one by it.
        variables: the same slots as cell ops see them.
    """

    __slots__ = ("consts", "loads", "names", "slots", "variables")

    def __init__(self, code: CodeType) -> None:
        local = code.co_varnames
        cells = [CellVar(name) for name in code.co_cellvars if name not in local]
        free = [FreeVar(name) for name in code.co_freevars]
        self.consts = code.co_consts
        self.names = code.co_names
        self.slots: tuple[str | CellVar | FreeVar, ...] = (*local, *cells, *free)
        shared = facts.LOAD_CLOSURE == "LOAD_FAST" and frozenset(local) & {*code.co_cellvars}
        self.loads = self.slots
        if shared:
            self.loads = (*(CellVar(n) if n in shared else n for n in local), *cells, *free)
        self.variables = (*(CellVar(name) for name in local), *cells, *free)


Reader = Callable[[Tables, int], Any]


def _compare(tables: Tables, oparg: int) -> Compare:
    cast = oparg & 16 if facts.TO_BOOL_BEFORE_JUMP else 0
    return Compare((oparg >> facts.COMPARE_SHIFT) + cast)


def _flagged_name(tables: Tables, oparg: int) -> tuple[bool, str]:
    return bool(oparg & 1), tables.names[oparg >> 1]


def _twice_flagged_name(tables: Tables, oparg: int) -> tuple[bool, bool, str]:
    return bool(oparg & 1), bool(oparg & 2), tables.names[oparg >> 2]


def _intrinsic_2(tables: Tables, oparg: int) -> int:
    # The library has no name for the default of a type parameter (3.13).
    return Intrinsic2Op(oparg) if oparg in Intrinsic2Op._value2member_map_ else oparg


_SPECIAL: Final[dict[str, Reader]] = {
    "LOAD_GLOBAL": _flagged_name,
    "LOAD_SUPER_ATTR": _twice_flagged_name,
    "BINARY_OP": lambda tables, oparg: BinaryOp(oparg),
    "CALL_INTRINSIC_1": lambda tables, oparg: Intrinsic1Op(oparg),
    "CALL_INTRINSIC_2": _intrinsic_2,
    "CONVERT_VALUE": lambda tables, oparg: FormatValue(oparg),
    "LOAD_COMMON_CONSTANT": lambda tables, oparg: CommonConstant(oparg),
    "LOAD_SPECIAL": lambda tables, oparg: SpecialMethod(oparg),
    **({"LOAD_ATTR": _flagged_name} if facts.LOAD_ATTR_TAKES_FLAG else {}),
}


def _reader(number: int) -> Reader:
    special = _SPECIAL.get(dis.opname[number])
    if special is not None:
        return special
    if not facts.takes_argument(number):
        return lambda tables, oparg: UNSET
    if number in dis.hasconst:
        return lambda tables, oparg: tables.consts[oparg]
    if number in facts.CELL_OPS:
        return lambda tables, oparg: tables.variables[oparg]
    if facts.READ_AS.get(dis.opname[number], dis.opname[number]) == "LOAD_FAST":
        return lambda tables, oparg: tables.loads[oparg]
    if number in dis.haslocal:
        return lambda tables, oparg: tables.slots[oparg]
    if number in dis.hasname:
        return lambda tables, oparg: tables.names[oparg]
    if number in dis.hascompare:
        return _compare
    return lambda tables, oparg: oparg


READERS: Final[tuple[Reader, ...]] = tuple(_reader(number) for number in range(256))
"""By opcode number: what an argument means, in the bytecode library's types. Not for jumps."""
