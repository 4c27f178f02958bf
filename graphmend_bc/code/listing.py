"""A code object as a list of ops: decoded once, looked at by every analysis."""

from __future__ import annotations

import dis
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final, NamedTuple

from bytecode.instr import UNSET, InstrLocation

from graphmend_bc.code import facts
from graphmend_bc.code.exception_table import table_entries
from graphmend_bc.code.operands import READERS, Tables


@dataclass(frozen=True, slots=True)
class Handler:
    """Where an exception raised by an op goes.

    Attributes:
        target: index of the handler's first op.
        push_lasti: True if the offset of the raising op is pushed below the exception, for RERAISE.
        depth: the operand stack is cut to this depth before the handler is entered; None if that is
            not known yet, in code still to be assembled.
    """

    target: int
    push_lasti: bool
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """One operation.

    Attributes:
        index: its place in the listing.
        name: opcode name; a paired op of 3.13 appears as the two plain ops it stands for, a
            shortcut of 3.14 as the op that does the same (`facts.READ_AS`).
        arg: the argument as the bytecode library has it: a name, CellVar or FreeVar, constant,
            enum, int or tuple of flags and name. UNSET if the op has none or is a jump.
        target: index of the op jumped to, None if the op is no jump. See `jumps`.
        handler: the entry of the exception table that covers the op, if any.
        offset: byte offset in `co_code`, behind any EXTENDED_ARG, as `dis` and Dynamo report it.
            The halves of a paired op share it.
        location: source lines and columns; its fields are None where the compiler gave none.
    """

    index: int
    name: str
    arg: Any
    target: int | None
    handler: Handler | None
    offset: int
    location: InstrLocation | None

    @property
    def jumps(self) -> bool:
        """True if control may go to the target; some targets only inform monitoring tools."""
        return self.target is not None and self.name not in facts.NEVER_FOLLOWED


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
                f"No instruction of {self.code.co_qualname} starts at byte {offset}. Take offsets "
                "from dis.get_instructions(); those of EXTENDED_ARG and inline caches do not count."
            )
        return self.ops[place]


def name_of(arg: object) -> str:
    """The name that a load's argument stands for; empty for other arguments."""
    name = arg[1] if isinstance(arg, tuple) and len(arg) == 2 else getattr(arg, "name", arg)
    return name if isinstance(name, str) else ""


def decode(code: CodeType) -> Listing:
    """Decode a code object.

    Inline caches and EXTENDED_ARG are taken up into the ops they belong to. A specialised or
    instrumented code object decodes as its original ops.

    Args:
        code: a code object of the running interpreter.

    Returns:
        The listing; it keeps the code object it came from.

    Raises:
        ValueError: the bytes are no sequence of instructions.

    Example:
        >>> [op.name for op in decode((lambda x: x).__code__).ops]
        ['RESUME', 'LOAD_FAST', 'RETURN_VALUE']
    """
    words = list(_words(code.co_code))
    index_at = _index_by_unit(words)
    handlers = _handlers(code, words, index_at)
    locations = _locations(code)
    tables = Tables(code)
    ops: list[Op] = []
    for word, handler in zip(words, handlers, strict=True):
        unit, number, oparg = word.unit, word.number, word.oparg
        name, offset, location = dis.opname[number], 2 * unit, locations[unit]
        target = None
        if number in _JUMPS:
            distance = -oparg if number in _BACKWARD else oparg
            target = _lookup(index_at, word.behind + distance, code)
            named: tuple[tuple[str, Any], ...] = ((name, UNSET),)
        elif name in facts.PAIRED_OPS:
            named = _halves(name, tables, oparg)
        else:
            named = ((facts.READ_AS.get(name, name), READERS[number](tables, oparg)),)
        for plain, arg in named:
            ops.append(Op(len(ops), plain, arg, target, handler, offset, location))
    return Listing(code, tuple(ops))


_JUMPS: Final = frozenset((*dis.hasjrel, *dis.hasjabs))
_BACKWARD: Final = frozenset(
    number
    for number in _JUMPS
    if "BACKWARD" in dis.opname[number] or dis.opname[number] in facts.NEVER_FOLLOWED
)
_CACHE: Final = dis.opmap["CACHE"]
_EXTENDED_ARG: Final = dis.EXTENDED_ARG


class _Word(NamedTuple):
    """One instruction with its EXTENDED_ARGs and caches; places are units of two bytes."""

    start: int
    unit: int
    behind: int
    number: int
    oparg: int


def _words(code: bytes) -> Iterator[_Word]:
    start, oparg = 0, 0
    size = len(code) // 2
    unit = 0
    while unit < size:
        number = code[2 * unit]
        oparg |= code[2 * unit + 1]
        if number == _EXTENDED_ARG:
            oparg <<= 8
            unit += 1
            continue
        behind = unit + 1
        while behind < size and code[2 * behind] == _CACHE:
            behind += 1
        yield _Word(start, unit, behind, number, oparg)
        start, unit, oparg = behind, behind, 0


def _index_by_unit(words: Sequence[_Word]) -> dict[int, int]:
    """Op index by every unit an op can be jumped to at, its EXTENDED_ARGs included."""
    places: dict[int, int] = {}
    index = 0
    for word in words:
        places.update(dict.fromkeys(range(word.start, word.unit + 1), index))
        index += 2 if dis.opname[word.number] in facts.PAIRED_OPS else 1
    return places


def _lookup(index_at: dict[int, int], unit: int, code: CodeType) -> int:
    if unit not in index_at:
        raise ValueError(
            f"{code.co_qualname} jumps to byte {2 * unit}, where no instruction starts: its "
            "bytecode is damaged."
        )
    return index_at[unit]


def _halves(name: str, tables: Tables, oparg: int) -> tuple[tuple[str, Any], ...]:
    first, second = (
        (half, (tables.loads if half == "LOAD_FAST" else tables.slots)[place])
        for half, place in zip(facts.PAIRED_OPS[name], (oparg >> 4, oparg & 15), strict=True)
    )
    return first, second


def _handlers(
    code: CodeType, words: Sequence[_Word], index_at: dict[int, int]
) -> list[Handler | None]:
    """For each instruction, the entry that covers it."""
    found: list[Handler | None] = [None] * len(words)
    place = 0
    for entry in table_entries(code):
        target = _lookup(index_at, entry.target, code)
        handler = Handler(target, entry.push_lasti, entry.depth)
        while place < len(words) and words[place].unit < entry.start:
            place += 1
        while place < len(words) and words[place].unit < entry.stop:
            found[place] = handler
            place += 1
    return found


def _locations(code: CodeType) -> list[InstrLocation]:
    """For each unit, where it came from; equal places share one object."""
    known: dict[tuple[int | None, ...], InstrLocation] = {}
    locations: list[InstrLocation] = []
    for position in code.co_positions():
        location = known.get(position)
        if location is None:
            location = known[position] = _location(*position)
        locations.append(location)
    # A line table that was stripped or cut short leaves the rest without a place.
    missing = len(code.co_code) // 2 - len(locations)
    return locations + [InstrLocation(None, None, None, None)] * missing


def _location(
    line: int | None, end_line: int | None, column: int | None, end_column: int | None
) -> InstrLocation:
    try:
        return InstrLocation(line, end_line, column, end_column)
    except ValueError:
        # Code made from syntax trees may end before it starts. The line is what matters then.
        return InstrLocation(line, None, None, None)
