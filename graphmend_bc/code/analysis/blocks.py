"""The control flow graph: basic blocks and the edges between them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Final

from graphmend_bc.code import facts
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Handler, Listing, Op, decode

EXIT: Final = -1
"""Stands for "the frame is left" where a block index is asked for."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A way out of a block.

    Attributes:
        target: index of the block entered.
        jump: True if the block's last op jumps there, False if control falls through.
    """

    target: int
    jump: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A run of ops entered only at its first and left only at its last.

    Attributes:
        index: its place in the graph; blocks are in the order of the code.
        start: index of its first op.
        stop: index behind its last op.
        successors: normal edges, the one that falls through first. Both edges of a conditional jump
            are there, also if they lead to the same block.
        handler: index of the block that gets exceptions raised here, if one does.
    """

    index: int
    start: int
    stop: int
    successors: tuple[Edge, ...]
    handler: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """The blocks of a listing; block 0 is the entry. Dead blocks are there too.

    Compared by identity: the analyses keep what they found for the last few graphs asked about.
    """

    listing: Listing
    blocks: tuple[Block, ...]

    @property
    def qualname(self) -> str:
        """The name of the code object, for messages."""
        return self.listing.code.co_qualname

    def block_of(self, op_index: int) -> Block:
        """The block that has an op.

        Raises:
            IndexError: the listing has no such op.
        """
        if not 0 <= op_index < len(self.listing.ops):
            raise IndexError(
                f"{self.qualname} has no op {op_index}, only 0 to {len(self.listing.ops) - 1}."
            )
        return self.blocks[bisect_right(self.blocks, op_index, key=lambda block: block.start) - 1]

    def last(self, block: Block) -> Op:
        """The last op of a block."""
        return self.listing.ops[block.stop - 1]

    def ops(self, block: Block) -> Sequence[Op]:
        """The ops of a block."""
        return self.listing.ops[block.start : block.stop]

    def exits(self, block: Block) -> tuple[int, ...]:
        """Blocks that may follow one, its handler last."""
        normal = tuple(edge.target for edge in block.successors)
        return normal if block.handler is None else (*normal, block.handler)


def build(listing: Listing) -> Graph:
    """Part a listing into blocks.

    Args:
        listing: a decoded code object.

    Returns:
        The graph. A block ends at a jump, a return or a raise, before a jump's target, and where
        the covering exception handler changes.
    """
    handlers = _handlers(listing.ops)
    starts = _leaders(listing.ops, handlers)
    number = {start: index for index, start in enumerate(starts)}
    stops = (*starts[1:], len(listing.ops))
    blocks = []
    for index, (start, stop) in enumerate(zip(starts, stops, strict=True)):
        handler = handlers[start]
        blocks.append(
            Block(
                index,
                start,
                stop,
                _successors(listing.ops[stop - 1], number),
                None if handler is None else number[handler.target],
            )
        )
    return Graph(listing, tuple(blocks))


class _Exact:
    """A code object, compared as an object: `==` takes two functions of different files for one."""

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Exact) and other.code is self.code


def graph_of(code: CodeType) -> Graph:
    """The blocks of a code object: the same graph every time, so that analyses of it are kept.

    Args:
        code: any code object.
    """
    return _graph_of(_Exact(code))


@kept(64)
def _graph_of(exact: _Exact) -> Graph:
    return build(decode(exact.code))


@kept(16)
def reachable(graph: Graph, *, exceptional: bool = True) -> frozenset[int]:
    """Blocks that control may reach from the entry.

    Args:
        graph: the blocks.
        exceptional: also by way of exception handlers.
    """
    seen = {0}
    work = [0]
    while work:
        block = graph.blocks[work.pop()]
        targets = graph.exits(block) if exceptional else [e.target for e in block.successors]
        fresh = [target for target in targets if target not in seen]
        seen.update(fresh)
        work += fresh
    return frozenset(seen)


@kept(16)
def predecessors(graph: Graph, *, exceptional: bool = True) -> dict[int, frozenset[int]]:
    """For each reachable block, the reachable blocks it may be entered from.

    Args:
        graph: the blocks.
        exceptional: with the edges from protected blocks to their handlers.
    """
    alive = reachable(graph)
    found: dict[int, set[int]] = {index: set() for index in alive}
    for index in alive:
        block = graph.blocks[index]
        for target in graph.exits(block) if exceptional else [e.target for e in block.successors]:
            found[target].add(index)
    return {index: frozenset(sources) for index, sources in found.items()}


def _handlers(ops: Sequence[Op]) -> list[Handler | None]:
    """For each op, what covers it; a NOT_TAKEN, which raises nothing, is what follows it."""
    found = [op.handler for op in ops]
    for index in range(len(ops) - 2, -1, -1):
        if ops[index].name == "NOT_TAKEN" and found[index] is None:
            found[index] = found[index + 1]
    return found


def _leaders(ops: Sequence[Op], handlers: Sequence[Handler | None]) -> list[int]:
    leaders = {0}
    for op, following in zip(ops, (*ops[1:], None), strict=True):
        if op.target is not None:
            leaders.add(op.target)
        if op.handler is not None:
            leaders.add(op.handler.target)
        if following is None:
            continue
        ends = op.jumps or op.name in facts.ENDINGS
        if ends or handlers[following.index] != handlers[op.index]:
            leaders.add(following.index)
    return sorted(leaders)


def _successors(last: Op, number: dict[int, int]) -> tuple[Edge, ...]:
    edges = []
    if last.name not in facts.ENDINGS and last.name not in facts.JUMPS:
        behind = number.get(last.index + 1)
        # Code that runs off its end is damaged, unless control cannot get there: leave it without
        # an edge.
        if behind is not None:
            edges.append(Edge(behind, jump=False))
    if last.jumps and last.target is not None:
        edges.append(Edge(number[last.target], jump=True))
    return tuple(edges)
