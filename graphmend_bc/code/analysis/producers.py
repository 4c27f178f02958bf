"""Which op pushed each operand stack slot."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import CO_GENERATOR

from bytecode import Instr, Label

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import Graph
from graphmend_bc.code.analysis.stack import depth_at, number_of, stack_effect
from graphmend_bc.code.analysis.stack_reach import reach
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op

Slots = tuple[frozenset[int], ...]
"""For each stack slot, bottom first, the indices of the ops that may have pushed it."""

UNKNOWN = -1
"""Stands for an op in a slot of which it is not known what pushed it."""

_ADDS = facts.op_set("LIST_APPEND", "SET_ADD", "MAP_ADD")
_NULLS = facts.op_set("PUSH_NULL", "LOAD_FAST_AND_CLEAR")
_PAIRS = frozenset({"LOAD_METHOD", "LOAD_SPECIAL"})  # an object comes off, a method and self go on
# The library does not say what these take, or not with every argument.
_COUNTED_HERE = _PAIRS | {"BUILD_INTERPOLATION", "CALL_INTRINSIC_2"}


def slots_before(graph: Graph, op_index: int) -> Slots | None:
    """The stack before an op.

    Args:
        graph: blocks of one code object.
        op_index: index of the op in the listing.

    Returns:
        The producers of the slots, or None if the op cannot be reached.
    """
    block = graph.block_of(op_index)
    slots = _entry_slots(graph).get(block.index)
    if slots is None:
        return None
    for op in graph.listing.ops[block.start : op_index]:
        slots = _after(op, slots, jump=False)
    return slots


def callee_of(graph: Graph, call_index: int) -> int | None:
    """Index of the op that pushed a call's callee, or None if paths differ in it."""
    slots = slots_before(graph, call_index)
    if slots is None:
        return None
    pops = -_instr(graph.listing.ops[call_index]).pre_and_post_stack_effect()[0]
    first, second = slots[len(slots) - pops : len(slots) - pops + 2]
    callee = second if facts.NULL_BEFORE_CALLABLE or first == second else first
    return next(iter(callee)) if len(callee) == 1 and UNKNOWN not in callee else None


@kept(16)
def returns_none(graph: Graph) -> bool:
    """True for a function that returns None on every way, and gives nothing else.

    Args:
        graph: blocks of its code object.
    """
    ops = graph.listing.ops
    if graph.listing.code.co_flags & CO_GENERATOR:
        return False
    constants = [op.arg for op in ops if op.name == "RETURN_CONST"]
    for op in ops:
        if op.name == "RETURN_VALUE" and (slots := slots_before(graph, op.index)) is not None:
            made = [ops[index] for index in slots[-1] if index != UNKNOWN]
            constants += [op.arg if op.name == "LOAD_CONST" else op for op in made] or [op]
    return all(constant is None for constant in constants)


def pushes_pair(op: Op) -> bool:
    """True if the op pushes a callee together with its NULL or self."""
    flagged = op.name in ("LOAD_GLOBAL", "LOAD_ATTR") and isinstance(op.arg, tuple) and op.arg[0]
    return op.name in _PAIRS or bool(flagged)


def may_be_null(graph: Graph, slot: frozenset[int]) -> bool:
    """True unless every op that may have pushed the slot pushes real objects only."""
    ops = [graph.listing.ops[index] for index in slot if index != UNKNOWN]
    return UNKNOWN in slot or any(pushes_pair(op) or op.name in _NULLS for op in ops)


def _instr(op: Op) -> Instr:
    return Instr(op.name, Label() if op.target is not None else op.arg)


def _after(op: Op, slots: Slots, jump: bool) -> Slots:
    if op.name == "SWAP":
        changed = list(slots)
        changed[-1], changed[-op.arg] = changed[-op.arg], changed[-1]
        return tuple(changed)
    if op.name == "COPY":
        return (*slots, slots[-op.arg])
    if op.name in _ADDS:  # to a container further down
        return slots[: len(slots) + stack_effect(op, jump=jump)]
    if op.name in _COUNTED_HERE:
        taken = reach(op.name, number_of(op))
        before, after = -taken, taken + stack_effect(op, jump=jump)
    else:
        before, after = _instr(op).pre_and_post_stack_effect(jump=jump)
    if before > 0:
        before, after = 0, before + after
    kept = slots[: len(slots) + before] if before else slots
    return (*kept, *(frozenset({op.index}),) * after)


def _merge(left: Slots, right: Slots) -> Slots:
    return tuple(a | b for a, b in zip(left, right, strict=True))


@kept(16)
def _entry_slots(graph: Graph) -> dict[int, Slots]:
    """Slots at each block entry, by propagation along normal edges to a fixed point.

    Handlers start with a stack of which only the depth is known.
    """
    depths = depth_at(graph)
    handlers = {block.handler for block in graph.blocks if block.handler is not None}
    entry: dict[int, Slots] = {
        index: (frozenset({UNKNOWN}),) * depths[index] for index in handlers if index in depths
    }
    entry[0] = ()
    work = [*entry]
    while work:
        block = graph.blocks[work.pop()]
        slots = entry[block.index]
        ops: Sequence[Op] = graph.listing.ops[block.start : block.stop]
        for op in ops[:-1]:
            slots = _after(op, slots, jump=False)
        for edge in block.successors:
            reached = _after(ops[-1], slots, jump=edge.jump)
            known = entry.get(edge.target)
            merged = reached if known is None else _merge(known, reached)
            if merged != known:
                entry[edge.target] = merged
                work.append(edge.target)
    return entry
