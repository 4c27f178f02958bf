"""Assigned locals: those that surely have a value, and those that may have one.

Like liveness, this follows fast locals that hold their value themselves and leaves out those that
live in cells (`liveness.cell_names`). Parameters have a value at entry; DELETE_FAST and
LOAD_FAST_AND_CLEAR take it away. A handler is entered with what holds before any of the ops it
covers, as an op that raises has not stored anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from graphmend_bc.code.analysis.blocks import Block, Graph
from graphmend_bc.code.analysis.comprehension_saves import restored_saves
from graphmend_bc.code.analysis.liveness import Names, cell_names
from graphmend_bc.code.header import argument_names
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op

Facts = frozenset[str | int]
"""Names of assigned locals, and the ops that set an assigned local aside (see `saves`)."""

Meet = Callable[[Facts, Facts], Facts]


@kept(16)
def definitely_assigned(graph: Graph) -> dict[int, Names]:
    """Locals that have a value whenever a block is entered.

    Args:
        graph: the blocks.

    Returns:
        Names by block index, for the blocks that can be reached.
    """
    return _named(graph, _entry(graph, _both))


def possibly_assigned(graph: Graph) -> dict[int, Names]:
    """Locals that have a value on some way into a block; otherwise as `definitely_assigned`."""
    return _named(graph, _entry(graph, _either))


def definitely_assigned_before(graph: Graph, op_index: int) -> Names:
    """Locals that have a value whenever an op is about to run.

    Raises:
        ValueError: the op cannot be reached.
    """
    return _before(graph, op_index, _both)


def possibly_assigned_before(graph: Graph, op_index: int) -> Names:
    """Locals that may have a value when an op is about to run.

    Raises:
        ValueError: the op cannot be reached.
    """
    return _before(graph, op_index, _either)


def _both(left: Facts, right: Facts) -> Facts:
    return left & right


def _either(left: Facts, right: Facts) -> Facts:
    return left | right


_NONE: Final[Facts] = frozenset()


class _Flow:
    """One forward analysis: facts meet where ways meet."""

    def __init__(self, graph: Graph, meet: Meet) -> None:
        self.graph = graph
        self.meet = meet
        self.restored = restored_saves(graph)

    def at_entry(self) -> dict[int, Facts]:
        facts: dict[int, Facts] = {0: frozenset(argument_names(self.graph.listing.code))}
        work = [0]
        while work:
            block = self.graph.blocks[work.pop()]
            for target, arriving in self.leaving(block, facts[block.index]).items():
                known = facts.get(target)
                new = arriving if known is None else self.meet(known, arriving)
                if new != known:
                    facts[target] = new
                    work.append(target)
        return facts

    def leaving(self, block: Block, facts: Facts) -> dict[int, Facts]:
        """Facts brought to the blocks that follow, given those at the block's entry."""
        raised = facts
        for op in self.graph.ops(block):
            raised = self.meet(raised, facts)
            facts = self.after(op, facts)
        arriving = {edge.target: facts for edge in block.successors}
        if block.handler is not None:
            both = block.handler in arriving
            arriving[block.handler] = self.meet(facts, raised) if both else raised
        return arriving

    def after(self, op: Op, facts: Facts) -> Facts:
        if op.name == "STORE_FAST":
            assigned = op.index not in self.restored or self.restored[op.index] in facts
            return facts | {op.arg} if assigned else facts - {op.arg}
        if op.name == "DELETE_FAST":
            return facts - {op.arg}
        if op.name == "LOAD_FAST_AND_CLEAR":
            aside = {op.index} if op.arg in facts else _NONE
            return facts - {op.arg, op.index} | aside
        return facts


@kept(16)
def _entry(graph: Graph, meet: Meet) -> dict[int, Facts]:
    return _Flow(graph, meet).at_entry()


def _named(graph: Graph, facts: Mapping[int, Facts]) -> dict[int, Names]:
    return {index: _names(graph, found) for index, found in facts.items()}


def _names(graph: Graph, facts: Facts) -> Names:
    return frozenset(fact for fact in facts if isinstance(fact, str)) - cell_names(graph)


def _before(graph: Graph, op_index: int, meet: Meet) -> Names:
    flow = _Flow(graph, meet)
    block = graph.block_of(op_index)
    entry = _entry(graph, meet)
    if block.index not in entry:
        raise ValueError(
            f"Op {op_index} of {graph.qualname} cannot be reached, so nothing can be "
            "said of its locals."
        )
    facts = entry[block.index]
    for op in graph.listing.ops[block.start : op_index]:
        facts = flow.after(op, facts)
    return _names(graph, facts)
