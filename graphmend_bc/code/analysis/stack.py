"""The operand stack: how deep it is at each op, and how far down a piece of code reaches.

Depths are counted as CPython's compiler counts them. Where that differs from what is really there
it is
by design: from 3.12 on an exhausted FOR_ITER jumps with a value more, which END_FOR takes away.
"""

from __future__ import annotations

import dis
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from bytecode.instr import UNSET

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import Graph
from graphmend_bc.code.analysis.stack_reach import reach
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op


@dataclass(frozen=True, slots=True)
class Depths:
    """Operand stack depths of some ops.

    Attributes:
        before: for each op, the depth before it runs; None if it cannot be reached.
        handlers: for each exception handler, by the index of its first op, the depth to which the
            stack is cut on the way to it (the exception, and the offset if asked for, go on top of
            that).
        highest: the greatest depth anywhere: what `co_stacksize` must allow.
    """

    before: tuple[int | None, ...]
    handlers: dict[int, int]
    highest: int


def stack_effect(op: Op, *, jump: bool) -> int:
    """By how much an op changes the depth of the stack.

    Args:
        op: the op.
        jump: True for the way on which a conditional jump is taken, False for the other.
    """
    return _effect(dis.opmap[op.name], number_of(op), jump)


def number_of(op: Op) -> int:
    """The part of an op's argument on which its stack effect depends, as a number."""
    if op.name in _FLAGGED:
        return int(op.arg[0]) if isinstance(op.arg, tuple) else 0
    counts = isinstance(op.arg, int) and op.arg is not UNSET and op.name not in _CONSTANTS
    return int(op.arg) if counts else 0


def depths(ops: Sequence[Op]) -> Depths:
    """Compute the depth before every op that can be reached.

    An exception handler has the lowest depth among the ops it covers, or the one that is given if
    that is lower: a protected block starts at its handler's depth. torch 2.15 gives higher ones to
    some `with` blocks that it goes on in on CPython 3.14.

    Args:
        ops: all ops of a code object.

    Raises:
        ValueError: two ways to an op disagree on the depth, or the stack would go below empty.
    """
    flow = _Flow(ops)
    flow.run()
    if flow.conflict is not None:
        raise ValueError(flow.conflict)
    return Depths(tuple(flow.before), flow.handlers, flow.highest())


def depth_at(graph: Graph) -> dict[int, int]:
    """Operand stack depth at the entry of each block that can be reached."""
    before = _before(graph)
    return {
        block.index: depth for block in graph.blocks if (depth := before[block.start]) is not None
    }


def depth_before(graph: Graph, op_index: int) -> int:
    """Operand stack depth before an op.

    Raises:
        ValueError: the op cannot be reached.
    """
    depth = _before(graph)[op_index]
    if depth is None:
        raise ValueError(
            f"Op {op_index} of {graph.qualname} cannot be reached, so it has no stack depth."
        )
    return depth


def lowest_depth(graph: Graph, blocks: Iterable[int]) -> int:
    """The lowest depth that any op of some blocks reaches down to.

    Slots that an op takes away, moves or looks at count as reached: `SWAP 2` at depth 5 reaches 3.
    Code that starts at depth d leaves what lies below alone exactly if this is at least d.

    Args:
        graph: the blocks of a code object.
        blocks: indices of the blocks asked about.

    Returns:
        An absolute depth (0: the empty stack).

    Raises:
        ValueError: none of the blocks can be reached.
    """
    before = _before(graph)
    lowest = [
        depth - reach(op.name, number_of(op))
        for index in blocks
        for op in graph.ops(graph.blocks[index])
        if (depth := before[op.index]) is not None
    ]
    if not lowest:
        raise ValueError(f"No block asked about in {graph.qualname} can be reached.")
    return min(lowest)


@kept(16)
def _before(graph: Graph) -> tuple[int | None, ...]:
    return depths(graph.listing.ops).before


_FLAGGED: Final = facts.op_set("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_SUPER_ATTR")
_CONSTANTS: Final = facts.op_set("LOAD_CONST", "RETURN_CONST", "KW_NAMES")


@cache
def _effect(number: int, oparg: int, jump: bool) -> int:
    if dis.opname[number] == "RETURN_GENERATOR":
        return 1  # the value sent to start the generator; only 3.13 and later say so themselves
    if dis.opname[number] == "RETURN_VALUE":
        return -1  # 3.14 counts the value on the caller's stack
    return dis.stack_effect(number, oparg if facts.takes_argument(number) else None, jump=jump)


def _ways_on(op: Op) -> list[tuple[int, bool]]:
    """Ops that may follow one, with True for those jumped to."""
    ways = []
    if op.name not in facts.ENDINGS and op.name not in facts.JUMPS:
        ways.append((op.index + 1, False))
    if op.jumps and op.target is not None:
        ways.append((op.target, True))
    return ways


class _Flow:
    """Depths on the way through a code object, worked out from the entry on.

    A handler's depth is known once the ops it covers are, some of which may lie in other handlers.
    So handlers are entered as they are found; should one turn out to be lower than thought, all
    starts over.
    """

    def __init__(self, ops: Sequence[Op]) -> None:
        self.ops = ops
        self.lasti = {op.handler.target: op.handler.push_lasti for op in ops if op.handler}
        self.handlers: dict[int, int] = {}
        self.before: list[int | None] = []
        self.conflict: str | None = None

    def run(self) -> None:
        fresh: dict[int, int] = {}
        while True:
            if not self.before:
                self.conflict = None
                self.before = [None] * len(self.ops)
                self.follow(0, 0)
                fresh = self.handlers
            for target, depth in fresh.items():
                self.follow(target, self.entry_depth(target, depth))
            found = self.covered()
            fresh = {
                target: depth for target, depth in found.items() if target not in self.handlers
            }
            lower = {t: d for t, d in found.items() if d < self.handlers.get(t, d)}
            if not fresh and not lower:
                return
            self.handlers = {**self.handlers, **fresh, **lower}
            if lower:
                self.before = []

    def entry_depth(self, target: int, depth: int) -> int:
        """Depth on entering a handler: the exception, and perhaps an offset, lie on top."""
        return depth + 1 + self.lasti[target]

    def follow(self, index: int, depth: int) -> None:
        """Note the depths from an op on, until ops are met that have one already."""
        work = [(index, depth)]
        while work:
            index, depth = work.pop()
            if not self.fits(index, depth):
                continue
            self.before[index] = depth
            op = self.ops[index]
            work += [(way, depth + stack_effect(op, jump=jump)) for way, jump in _ways_on(op)]

    def fits(self, index: int, depth: int) -> bool:
        """True if an op is new and its depth possible; if not possible, `conflict` says why."""
        if index >= len(self.ops):
            self.conflict = "Control runs off the end of the code: the last op must leave or jump."
            return False
        known = self.before[index]
        if known is not None and known != depth:
            self.conflict = (
                f"The operand stack before op {index} ({self.ops[index].name}) is {known} deep on "
                f"one way and {depth} deep on another. All ways must leave as many values."
            )
        elif depth < 0:
            self.conflict = (
                f"The operand stack before op {index} ({self.ops[index].name}) would be {depth} "
                "deep: an op before it takes more values than there are."
            )
        return known is None and depth >= 0

    def covered(self) -> dict[int, int]:
        """For each handler of ops that can be reached, the lowest depth among them."""
        found: dict[int, int] = {}
        for op, depth in zip(self.ops, self.before, strict=True):
            if op.handler is None or depth is None:
                continue
            target, asked = op.handler.target, op.handler.depth
            lowest = min(depth, depth + stack_effect(op, jump=False))
            # CPython takes off what lies above the depth that is given; if less is there, nothing.
            lowest = lowest if asked is None else min(asked, lowest)
            found[target] = min(lowest, found.get(target, lowest))
        return found

    def highest(self) -> int:
        entries = [self.entry_depth(target, depth) for target, depth in self.handlers.items()]
        after = [
            depth + max(0, stack_effect(op, jump=False), stack_effect(op, jump=True))
            for op, depth in zip(self.ops, self.before, strict=True)
            if depth is not None
        ]
        return max((*entries, *after), default=0)
