"""Short circuits: several conditional jumps that make up one condition.

`if a or b: X else: O` is compiled to two jumps with common targets. Taking the second condition
into the first one's predicate keeps `X` from being written twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphmend_bc.code.analysis import stack
from graphmend_bc.code.analysis.blocks import Block, Graph, predecessors
from graphmend_bc.code.analysis.liveness import writes
from graphmend_bc.code.listing import Op

_NEVER_IN_TEST = ("STORE_", "DELETE_", "RAISE_", "YIELD_", "IMPORT_", "SEND", "RETURN_", "MAKE_")


@dataclass(frozen=True, slots=True)
class Test:
    """A further condition.

    Attributes:
        block: index of the block that computes it and ends in a conditional jump.
        first: truth value of the condition before it under which it is asked.
        second: its own truth value that makes the combined condition True.
    """

    block: int
    first: bool
    second: bool


@dataclass(frozen=True, slots=True)
class Decision:
    """A condition and where it leads.

    Attributes:
        when_true, when_false: block indices.
        tests: conditions that are combined with the branching block's own, in order.
    """

    when_true: int
    when_false: int
    tests: tuple[Test, ...] = ()


def jump_outcomes(graph: Graph, block: Block) -> tuple[int, int]:
    """Blocks reached when the condition of the block's last op is true, and when it is false."""
    last = graph.last(block)
    taken = next(edge.target for edge in block.successors if edge.jump)
    passed = next(edge.target for edge in block.successors if not edge.jump)
    taken, passed = _past_markers(graph, taken), _past_markers(graph, passed)
    return (taken, passed) if "TRUE" in last.name else (passed, taken)


def _past_markers(graph: Graph, index: int) -> int:
    """The first block from here that has more than a NOT_TAKEN, which does nothing."""
    while _is_marker(graph, index):
        index = graph.blocks[index].successors[0].target
    return index


def _is_marker(graph: Graph, index: int) -> bool:
    return all(op.name == "NOT_TAKEN" for op in graph.ops(graph.blocks[index]))


def _sources(graph: Graph, index: int) -> frozenset[int]:
    """The blocks before one, those that a NOT_TAKEN parts from it included."""
    known = predecessors(graph, exceptional=False)
    direct = known.get(index, frozenset())
    markers = frozenset(source for source in direct if _is_marker(graph, source))
    return (direct - markers).union(*(known[marker] for marker in markers))


def is_condition(op: Op) -> bool:
    """True for a jump that asks for a truth value and drops or keeps the object asked."""
    return op.target is not None and ("IF_TRUE" in op.name or "IF_FALSE" in op.name)


def decision_at(graph: Graph, block: Block) -> Decision:
    """The widest decision that starts with the conditional jump ending `block`."""
    when_true, when_false = jump_outcomes(graph, block)
    decision = Decision(when_true, when_false)
    if "POP_JUMP" not in graph.last(block).name:
        return decision
    merged = {block.index}
    while (wider := _widen(graph, decision, merged)) is not None:
        merged.add(wider.tests[-1].block)
        decision = wider
    return decision


def _widen(graph: Graph, decision: Decision, merged: set[int]) -> Decision | None:
    for first, side, other in (
        (True, decision.when_true, decision.when_false),
        (False, decision.when_false, decision.when_true),
    ):
        test = graph.blocks[side]
        if side == other or side in merged or not _is_pure_test(graph, test, merged):
            continue
        on_true, on_false = jump_outcomes(graph, test)
        if other not in (on_true, on_false) or on_true == on_false:
            continue
        second = on_false == other
        goal = on_true if second else on_false
        step = Test(side, first, second)
        return Decision(goal, other, (*decision.tests, step))
    return None


def _is_pure_test(graph: Graph, block: Block, merged: set[int]) -> bool:
    """True if the block only computes a condition, and only the merged blocks lead to it."""
    last = graph.last(block)
    if not is_condition(last) or "POP_JUMP" not in last.name:
        return False
    around = {graph.blocks[index].handler for index in merged}
    if not _sources(graph, block.index) <= merged or around != {block.handler}:
        return False
    start = stack.depth_at(graph)[block.index]
    if stack.lowest_depth(graph, [block.index]) < start:
        return False
    if stack.depth_before(graph, block.stop - 1) != start + 1:
        return False
    ops = graph.listing.ops[block.start : block.stop]
    return not any(writes(op) or op.name.startswith(_NEVER_IN_TEST) for op in ops)
