"""Which blocks lie on every way to a block, and on every way from it."""

from __future__ import annotations

from typing import Any

import networkx as nx

from graphmend_bc.code.analysis.blocks import EXIT, Graph, predecessors, reachable
from graphmend_bc.code.kept import kept


@kept(16)
def immediate_dominators(graph: Graph, *, exceptional: bool = True) -> dict[int, int | None]:
    """For each block, the nearest other block that every way from the entry to it passes.

    Args:
        graph: the blocks.
        exceptional: also count the ways by exception handlers. Without them, blocks that only a
            raised exception leads to are left out.

    Returns:
        By block index, for the blocks that can be reached; None for the entry.
    """
    flow = nx.DiGraph()
    flow.add_node(0)
    for index in reachable(graph, exceptional=exceptional):
        block = graph.blocks[index]
        targets = graph.exits(block) if exceptional else [e.target for e in block.successors]
        flow.add_edges_from((index, target) for target in targets)
    return {**_immediate_dominators(flow, 0), 0: None}


@kept(16)
def raising_blocks(graph: Graph) -> frozenset[int]:
    """The blocks from which every normal way ends in a raise and none in a return.

    Args:
        graph: the blocks.
    """
    into = predecessors(graph, exceptional=False)

    def leading_to(last_ops: tuple[str, ...]) -> set[int]:
        found: set[int] = set()
        work = [b.index for b in graph.blocks if graph.last(b).name.startswith(last_ops)]
        while work:
            index = work.pop()
            if index not in found:
                found.add(index)
                work.extend(into.get(index, ()))
        return found

    return frozenset(leading_to(("RAISE_VARARGS",)) - leading_to(("RETURN_",)))


@kept(16)
def immediate_postdominators(
    graph: Graph, *, without: frozenset[int] = frozenset()
) -> dict[int, int]:
    """For each block, the nearest other block that every normal way on from it passes.

    Exceptional edges do not count; a block that ends in a return or a raise leads to `EXIT`. A loop
    that is never left has no way to `EXIT`: it is given one, from its first block.

    Args:
        graph: the blocks.
        without: blocks to leave out, as if no way led to them.

    Returns:
        By block index, for the blocks that can be reached; `EXIT` where no block is passed by all
        ways.
    """
    alive = reachable(graph) - without
    flow = nx.DiGraph()
    flow.add_node(EXIT)
    for index in alive:
        edges = [e for e in graph.blocks[index].successors if e.target not in without]
        flow.add_edges_from((index, edge.target) for edge in edges)
        if not edges:
            flow.add_edge(index, EXIT)
    for component in list(nx.strongly_connected_components(flow)):
        closed = all(
            target in component for index in component for target in flow.successors(index)
        )
        if closed and EXIT not in component:
            flow.add_edge(min(component), EXIT)
    found = _immediate_dominators(flow.reverse(copy=False), EXIT)
    return {index: parent for index, parent in found.items() if index != EXIT}


def postdominates(graph: Graph, later: int, earlier: int) -> bool:
    """True if every normal way on from a block passes another one, or if they are the same.

    Args:
        graph: the blocks.
        later, earlier: indices of blocks.
    """
    parents = immediate_postdominators(graph)
    block: int | None = earlier
    while block is not None and block != later:
        block = parents.get(block)
    return block == later


def _immediate_dominators(flow: Any, start: int) -> dict[int, int]:
    # Up to networkx 3.5 the start is its own dominator, later it has None or is left out.
    found = nx.immediate_dominators(flow, start)
    return {node: parent for node, parent in found.items() if node != start}
