"""Which blocks lie on every way to a block, and on every way from it."""

from __future__ import annotations

from typing import Any

import networkx as nx

from graphmend_bc.code.blocks import EXIT, Graph, reachable


def immediate_dominators(graph: Graph, *, exceptional: bool = True) -> dict[int, int | None]:
    """For each block, the nearest other block that every way from the entry to it passes.

    Args:
        graph: the blocks.
        exceptional: also count the ways by exception handlers. Without them, blocks that only a raised
            exception leads to are left out.

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


def immediate_postdominators(graph: Graph) -> dict[int, int]:
    """For each block, the nearest other block that every normal way on from it passes.

    Exceptional edges do not count; a block that ends in a return or a raise leads to `EXIT`. A loop that
    is never left has no way to `EXIT`: it is given one, from its first block.

    Args:
        graph: the blocks.

    Returns:
        By block index, for the blocks that can be reached; `EXIT` where no block is passed by all ways.
    """
    alive = reachable(graph)
    flow = nx.DiGraph()
    flow.add_node(EXIT)
    for index in alive:
        edges = graph.blocks[index].successors
        flow.add_edges_from((index, edge.target) for edge in edges)
        if not edges:
            flow.add_edge(index, EXIT)
    for component in list(nx.strongly_connected_components(flow)):
        closed = all(target in component for index in component for target in flow.successors(index))
        if closed and EXIT not in component:
            flow.add_edge(min(component), EXIT)
    found = _immediate_dominators(flow.reverse(copy=False), EXIT)
    return {index: parent for index, parent in found.items() if index != EXIT}


def _immediate_dominators(flow: Any, start: int) -> dict[int, int]:
    # Up to networkx 3.5 the start is its own dominator, later it has None or is left out.
    found = nx.immediate_dominators(flow, start)
    return {node: parent for node, parent in found.items() if node != start}
