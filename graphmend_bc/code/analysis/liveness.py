"""Live locals: those whose value may still be read.

Only fast locals that hold their value themselves are followed. Variables that inner functions share
live
in cells: the frame's slot holds the cell, others may read and write what is in it at any time, and
so they are never dead as long as a closure may exist. They are left out of all sets here;
`cell_names` tells which they are. What `locals()`, debuggers and tracing functions read does not
count either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import Block, Graph
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op

Names = frozenset[str]

_READS: Final = facts.op_set("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "DELETE_FAST")
_WRITES: Final = facts.op_set("STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR")


def reads(op: Op) -> Names:
    """Fast locals that an op reads. DELETE_FAST counts, as it raises if there is no value."""
    return frozenset((op.arg,)) if op.name in _READS and isinstance(op.arg, str) else _NONE


def writes(op: Op) -> Names:
    """Fast locals that an op gives a value or takes it from."""
    return frozenset((op.arg,)) if op.name in _WRITES and isinstance(op.arg, str) else _NONE


def cell_names(graph: Graph) -> Names:
    """Locals of this code object that live in cells, parameters among them."""
    return frozenset(graph.listing.code.co_cellvars)


@kept(16)
def live_in(graph: Graph) -> dict[int, Names]:
    """Locals that are live at the entry of each block.

    An op may raise before it has done anything. So what is live at a handler is live throughout the
    blocks that it protects.

    Args:
        graph: the blocks.

    Returns:
        Names by block index, for all blocks.
    """
    cells = cell_names(graph)
    used, changed = {}, {}
    for block in graph.blocks:
        used[block.index], changed[block.index] = _summary(graph.ops(block), cells)
    live: dict[int, Names] = dict.fromkeys(used, _NONE)
    sources = _sources(graph)
    work = set(used)
    while work:
        index = work.pop()
        block = graph.blocks[index]
        through = _live_out(block, live) - changed[index]
        now = used[index] | through | _live_at_handler(block, live)
        if now != live[index]:
            live[index] = now
            work |= sources[index]
    return live


def live_before(graph: Graph, op_index: int) -> Names:
    """Locals that are live before an op.

    Args:
        graph: the blocks.
        op_index: index of the op in the listing.
    """
    block = graph.block_of(op_index)
    live = live_in(graph)
    used, changed = _summary(graph.listing.ops[op_index : block.stop], cell_names(graph))
    return used | (_live_out(block, live) - changed) | _live_at_handler(block, live)


_NONE: Final[Names] = frozenset()


def _summary(ops: Iterable[Op], cells: Names) -> tuple[Names, Names]:
    """Locals that ops read before they change them, and all that they change."""
    used: set[str] = set()
    changed: set[str] = set()
    for op in ops:
        used |= reads(op) - changed
        changed |= writes(op)
    return frozenset(used) - cells, frozenset(changed) - cells


def _live_out(block: Block, live: dict[int, Names]) -> Names:
    return _NONE.union(*(live[edge.target] for edge in block.successors))


def _live_at_handler(block: Block, live: dict[int, Names]) -> Names:
    return _NONE if block.handler is None else live[block.handler]


def _sources(graph: Graph) -> dict[int, set[int]]:
    sources: dict[int, set[int]] = {block.index: set() for block in graph.blocks}
    for block in graph.blocks:
        for target in graph.exits(block):
            sources[target].add(block.index)
    return sources
