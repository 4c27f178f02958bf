"""A code object as a list of ops: decoded once, looked at by every analysis."""

from __future__ import annotations

import dis
import opcode
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from bytecode import (
    UNSET,
    BinaryOp,
    CellVar,
    Compare,
    FormatValue,
    FreeVar,
    InstrLocation,
    Intrinsic1Op,
    Intrinsic2Op,
)

from graphmend_bc.code import facts


@dataclass(frozen=True, slots=True)
class Handler:
    """Where an exception raised by an op goes.

    Attributes:
        target: index of the handler's first op.
        push_lasti: True if the offset of the raising op is pushed below the exception, for RERAISE.
    """

    target: int
    push_lasti: bool


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    Attributes:
        index: its place in the listing.
        name: opcode name; the paired ops of 3.13 appear as the two plain ops they stand for.
        arg: the argument as the bytecode library has it: a name, CellVar or FreeVar, constant, enum, int or
            tuple of flags and name. UNSET if the op has none or is a jump.
        target: index of the op jumped to, None if the op is no jump.
        handler: the entry of the exception table that covers the op, if any.
        offset: byte offset in `co_code`, behind any EXTENDED_ARG, as `dis` and Dynamo report it. The
            halves of a paired op share it.
        location: source lines and columns. Its fields are None where the compiler gave none.
    """

    index: int
    name: str
    arg: Any
    target: int | None
    handler: Handler | None
    offset: int
    location: InstrLocation | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A code object and its ops, in order."""

    code: CodeType
    ops: tuple[Op, ...]

    def at_offset(self, offset: int) -> Op:
        """The op at a byte offset; of a paired op, the first half.

        Args:
            offset: byte offset in `co_code`, as in `dis.Instruction.offset`.

        Raises:
            ValueError: no op starts there.
        """
        place = bisect_left(self.ops, offset, key=lambda op: op.offset)
        if place == len(self.ops) or self.ops[place].offset != offset:
            raise ValueError(
                f"No instruction of {self.code.co_qualname} starts at byte {offset}. Offsets of inline caches "
                "and of EXTENDED_ARG do not count; take them from dis.get_instructions()."
            )
        return self.ops[place]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One entry of an exception table. Units are code units of two bytes; `stop` is exclusive.

    Attributes:
        start: first unit covered.
        stop: first unit behind the covered ones.
        target: unit at which the handler starts.
        depth: operand stack depth to which the stack is cut before the handler is entered.
        push_lasti: as in `Handler`.
    """

    start: int
    stop: int
    target: int
    depth: int
    push_lasti: bool


def decode(code: CodeType) -> Listing:
    """Decode a code object.

    Inline caches and EXTENDED_ARG are taken up into the ops they belong to. Running or instrumented code
    objects decode as their original ops.

    Args:
        code: a code object of the running interpreter.

    Returns:
        The listing; it keeps the code object it came from.

    Example:
        >>> [op.name for op in decode((lambda x: x).__code__).ops]
        ['RESUME', 'LOAD_FAST', 'RETURN_VALUE']
    """
    units = list(_units(code.co_code))
    index_at = _index_by_unit(units)
    handlers = _handlers(code, units, index_at)
    locations = _locations(code)
    names = _Names(code)
    ops: list[Op] = []
    for (start, unit, number, oparg), handler in zip(units, handlers, strict=True):
        del start
        name = dis.opname[number]
        location = locations[unit]
        offset = 2 * unit
        if name in facts.PAIRED_OPS:
            indices = (oparg >> 4, oparg & 15)
            for half, local in zip(facts.PAIRED_OPS[name], indices, strict=True):
                ops.append(
                    Op(len(ops), half, names.fast[local], None, handler, offset, location)
                )
            continue
        behind = unit + 1 + _CACHES[number]
        if number in _FORWARD:
            target = index_at[behind + oparg]
        elif number in _BACKWARD:
            target = index_at[behind - oparg]
        else:
            arg = _ARGUMENTS[number](names, oparg)
            ops.append(Op(len(ops), name, arg, None, handler, offset, location))
            continue
        ops.append(Op(len(ops), name, UNSET, target, handler, offset, location))
    return Listing(code, tuple(ops))
