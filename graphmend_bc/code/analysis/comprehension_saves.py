"""Which stores put back a local that an inlined comprehension had set aside.

From 3.12 on `[x for x in a]` runs in its function's frame. A local `x` of the function is set aside
on the operand stack by LOAD_FAST_AND_CLEAR, which leaves it unbound, and put back by a STORE_FAST,
also if it was unbound before. So that STORE_FAST may leave the local unbound. It looks like any
other; only what it takes from the stack tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphmend_bc.code.analysis.blocks import Block, Graph
from graphmend_bc.code.analysis.stack import Depths, depths, stack_effect
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op

Saved = frozenset[tuple[int, int]]
"""Slots that hold a value set aside: its place from the bottom, and the op that set it aside."""


@kept(16)
def restored_saves(graph: Graph) -> Mapping[int, int]:
    """For each op that puts a local back, the LOAD_FAST_AND_CLEAR that set it aside.

    Args:
        graph: the blocks of a code object.

    Returns:
        Op indices; nothing on 3.11.
    """
    if all(op.name != "LOAD_FAST_AND_CLEAR" for op in graph.listing.ops):
        return {}
    known = depths(graph.listing.ops)
    states: dict[int, Saved] = {0: frozenset()}
    work = [0]
    while work:
        block = graph.blocks[work.pop()]
        for target, state in _onward(graph, block, known, states[block.index]):
            old = states.get(target)
            new = state if old is None else old & state
            if new != old:
                states[target] = new
                work.append(target)
    found: dict[int, int] = {}
    for index, state in states.items():
        for op in graph.ops(graph.blocks[index]):
            depth = known.before[op.index]
            assert depth is not None, f"Block {index} was reached, but its op {op.index} was not."
            slots = dict(state)
            if op.name == "STORE_FAST" and depth - 1 in slots:
                found[op.index] = slots[depth - 1]
            state = _after(op, depth, state, jump=False)
    return found


def _onward(graph: Graph, block: Block, known: Depths, state: Saved) -> list[tuple[int, Saved]]:
    """What is set aside when each following block is entered."""
    ways: list[tuple[int, Saved]] = []
    at_handler = state
    for op in graph.ops(block):
        depth = known.before[op.index] or 0
        before, at_handler = state, at_handler & state
        state = _after(op, depth, before, jump=False)
    ways += [(e.target, _after(op, depth, before, jump=e.jump)) for e in block.successors]
    if block.handler is not None:
        base = known.handlers[graph.blocks[block.handler].start]
        kept = frozenset((place, origin) for place, origin in at_handler if place < base)
        ways.append((block.handler, kept))
    return ways


def _after(op: Op, depth: int, state: Saved, *, jump: bool) -> Saved:
    if op.name == "LOAD_FAST_AND_CLEAR":
        return state | {(depth, op.index)}
    if op.name == "SWAP":
        exchanged = {depth - 1: depth - op.arg, depth - op.arg: depth - 1}
        return frozenset((exchanged.get(place, place), origin) for place, origin in state)
    # The compiler lets nothing but a STORE_FAST take a value set aside, or POP_TOP if it gives up.
    height = min(depth, depth + stack_effect(op, jump=jump))
    return frozenset((place, origin) for place, origin in state if place < height)
