"""From ops with labels back to a code object."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import bytecode
from bytecode.instr import UNSET, InstrLocation, Intrinsic2Op, TryBegin, TryEnd

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.stack import Depths, depths
from graphmend_bc.code.header import Header as Header
from graphmend_bc.code.listing import Handler, Listing, Op


class Label:
    """A place in the code, put before the op it marks. Compared by identity.

    Attributes:
        name: shown in messages.
        depth: for a label that marks an exception handler: the operand stack depth to which the
            stack is cut on the way there, if there is as much. None has it worked out from the ops
            the handler covers.
    """

    __slots__ = ("depth", "name")

    def __init__(self, name: str = "", depth: int | None = None) -> None:
        self.name = name
        self.depth = depth

    def __repr__(self) -> str:
        return f"Label({self.name!r})"


@dataclass(frozen=True, slots=True)
class Emit:
    """One op to be assembled.

    Attributes:
        name: opcode name. The direction in the name of a jump is set by where its label stands.
        arg: as in `Op.arg`; UNSET for ops without argument and for jumps.
        label: what a jump leads to.
        handler: the label of the exception handler that covers the op, and whether it wants the
            offset of the raise below the exception.
        location: source lines and columns; None takes those of the op before.
        origin: byte offset in the original code of the op this one stands for.
    """

    name: str
    arg: Any = UNSET
    label: Label | None = None
    handler: tuple[Label, bool] | None = None
    location: InstrLocation | None = None
    origin: int | None = None


@dataclass(frozen=True, slots=True)
class Assembled:
    """A new code object.

    Attributes:
        code: the code object.
        origins: byte offset in the new code to byte offset in the original, for ops that have an
            origin.
    """

    code: CodeType
    origins: Mapping[int, int]


def relist(listing: Listing) -> Sequence[Emit | Label]:
    """A listing as items that assemble to the same code.

    Example:
        `assemble(Header.of(code), relist(decode(code))).code` does what `code` does.
    """
    labels = _labels(listing.ops)
    items: list[Emit | Label] = []
    for op in listing.ops:
        if op.index in labels:
            items.append(labels[op.index])
        items.append(
            Emit(
                op.name,
                op.arg,
                None if op.target is None else labels[op.target],
                None if op.handler is None else (labels[op.handler.target], op.handler.push_lasti),
                op.location,
                op.offset,
            )
        )
    return items


def assemble(header: Header, items: Sequence[Emit | Label]) -> Assembled:
    """Make a code object.

    Jump distances, EXTENDED_ARG, inline caches, the exception table, stack depths and source
    positions are worked out. Constants, names and locals that no op uses are dropped, save the
    docstring and the locals that the header lists. No op is added or taken away.

    Args:
        header: what is not in the ops.
        items: ops in order, with labels before the ops they mark.

    Returns:
        The code object, and where its ops came from.

    Raises:
        ValueError: a label is missing or there twice, an op does not fit the interpreter, a
            conditional jump leads backward where the interpreter has none, ops that belong together
            are parted, or the operand stack does not work out. The message says which op.

    Example:
        >>> items = [Emit("RESUME", 0), Emit("LOAD_CONST", 7), Emit("RETURN_VALUE")]
        >>> eval(assemble(Header.of((lambda: 0).__code__), items).code)
        7
    """
    try:
        ops = _resolve(items)
        _check_runs(ops)
        found = depths(ops)
        concrete = _bytecode(header, ops, found).to_concrete_bytecode(
            compute_jumps_passes=_PASSES, compute_exception_stack_depths=False
        )
        _put_in_place(concrete, ops)
        code = concrete.to_code(
            stacksize=max(1, found.highest), compute_exception_stack_depths=False
        )
    except ValueError as error:
        raise ValueError(f"Cannot assemble {header.qualname}. {error}") from error
    emits = [item for item in items if isinstance(item, Emit)]
    origins = {
        offset: emit.origin
        for offset, emit in zip(_offsets(concrete), emits, strict=True)
        if emit.origin is not None
    }
    return Assembled(code, origins)


_FOLLOWERS: Final = {"PRECALL": ("CALL",), "YIELD_VALUE": ("RESUME",)}

_STAND_IN: Final = "BUILD_STRING"
"""An op with any number and no cache, for the time that the bytecode library looks at the ops."""

_PASSES: Final = 1000
"""Rounds of making jumps longer; each lengthens one at least, and nearly all code needs two."""


def _labels(ops: Sequence[Op]) -> dict[int, Label]:
    labels: dict[int, Label] = {}
    for op in ops:
        if op.target is not None:
            labels.setdefault(op.target, Label(f"op {op.target}"))
        if op.handler is not None:
            label = labels.setdefault(op.handler.target, Label(f"op {op.handler.target}"))
            label.depth = op.handler.depth
    return labels


def _resolve(items: Sequence[Emit | Label]) -> list[Op]:
    """The items as ops whose targets are indices; offsets are not known yet."""
    places: dict[Label, int] = {}
    index = 0
    for item in items:
        if isinstance(item, Emit):
            index += 1
        elif item in places:
            raise ValueError(f"{item!r} is there twice: before op {places[item]} and op {index}.")
        else:
            places[item] = index
    size = index
    emits = [item for item in items if isinstance(item, Emit)]

    def place(label: Label, emit: Emit) -> int:
        if places.get(label, size) == size:
            raise ValueError(f"{emit.name} refers to {label!r}, which marks no op of this code.")
        return places[label]

    ops = []
    for index, emit in enumerate(emits):
        if emit.name not in dis.opmap:
            raise ValueError(f"Op {index} is {emit.name}, which this Python does not have.")
        target = None if emit.label is None else place(emit.label, emit)
        handler = None
        if emit.handler is not None:
            label, push_lasti = emit.handler
            handler = Handler(place(label, emit), push_lasti, label.depth)
        name = emit.name if target is None else _directed(emit.name, backward=target <= index)
        ops.append(Op(index, name, emit.arg, target, handler, -1, emit.location))
    return ops


def _check_runs(ops: Sequence[Op]) -> None:
    """Some ops take others to be behind them (PRECALL and FOR_ITER skip those unseen)."""
    for op in ops:
        if op.name == "FOR_ITER" and op.target is not None:
            start, wanted = op.target, facts.FOR_ITER_SKIPS
        else:
            start, wanted = op.index + 1, _FOLLOWERS.get(op.name, ())
        there = tuple(other.name for other in ops[start : start + len(wanted)])
        if there != wanted:
            raise ValueError(
                f"{op.name} at op {op.index} must lead straight to {' and '.join(wanted)}: the "
                f"interpreter counts on it. Put what is there now ({', '.join(there)}) behind."
            )


def _directed(name: str, *, backward: bool) -> str:
    """The name of a jump in the direction it goes."""
    if name in facts.JUMPS:
        if not backward:
            return "JUMP_FORWARD"
        return "JUMP_BACKWARD" if name == "JUMP_FORWARD" else name
    if name in facts.NEVER_FOLLOWED:
        return name
    if not backward:
        return name.replace("BACKWARD", "FORWARD")
    if facts.CONDITIONAL_JUMPS_GO_BACKWARD and name.startswith("POP_JUMP"):
        return name.replace("FORWARD", "BACKWARD")
    raise ValueError(
        f"{name} jumps backward, which this Python cannot do. Turn the test round, and let it jump "
        "over a JUMP_BACKWARD."
    )


def _bytecode(header: Header, ops: Sequence[Op], found: Depths) -> bytecode.Bytecode:
    """The ops in the bytecode library's form, each protected run in a TryBegin and TryEnd."""
    result = header.empty()
    labels = {target: bytecode.Label() for target in _targets(ops)}
    begin: TryBegin | None = None
    previous: Handler | None = None
    for op in ops:
        if op.handler != previous and begin is not None:
            result.append(TryEnd(begin))
            begin = None
        if op.index in labels:
            result.append(labels[op.index])
        if op.handler != previous and op.handler is not None:
            target = op.handler.target
            depth = found.handlers.get(target, op.handler.depth or 0)
            begin = TryBegin(labels[target], op.handler.push_lasti, depth)
            result.append(begin)
        previous = op.handler
        result.append(_instruction(op, labels))
    if begin is not None:
        result.append(TryEnd(begin))
    return result


def _targets(ops: Sequence[Op]) -> set[int]:
    jumps = {op.target for op in ops if op.target is not None}
    return jumps | {op.handler.target for op in ops if op.handler is not None}


def _instruction(op: Op, labels: Mapping[int, bytecode.Label]) -> bytecode.Instr:
    arg = op.arg if op.target is None else labels[op.target]
    try:
        name = _STAND_IN if _is_stood_in_for(op) else op.name
        return bytecode.Instr(name, arg, location=op.location)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Op {op.index} ({op.name} with argument {arg!r}): {error}.") from error


def _put_in_place(concrete: bytecode.ConcreteBytecode, ops: Sequence[Op]) -> None:
    """Exchange the ops that were stood in for."""
    instructions = (each for each in concrete if each.name != "CACHE")
    for instruction, op in zip(instructions, ops, strict=True):
        if _is_stood_in_for(op):
            instruction.set(op.name, instruction.arg)


def _is_stood_in_for(op: Op) -> bool:
    """True if the library would refuse the op's argument, for which it has no name."""
    unnamed = op.name == "CALL_INTRINSIC_2" and not isinstance(op.arg, Intrinsic2Op)
    return unnamed or op.name == "BUILD_INTERPOLATION"


def _offsets(concrete: bytecode.ConcreteBytecode) -> Iterator[int]:
    """Byte offset of each instruction, behind its EXTENDED_ARGs."""
    behind = 0
    for instruction in concrete:
        behind += instruction.size
        if instruction.name != "CACHE":
            yield behind - 2
