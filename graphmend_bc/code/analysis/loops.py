"""Natural loops."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from graphmend_bc.code.analysis.blocks import Graph, predecessors
from graphmend_bc.code.analysis.dominators import immediate_dominators
from graphmend_bc.code.kept import kept


@dataclass(frozen=True, slots=True)
class NaturalLoop:
    """A loop that is entered at one block only.

    Attributes:
        header: the block at which it is entered.
        latches: its blocks from which control goes back to the header.
        body: all its blocks: those that lie on a way from the header to a latch.
    """

    header: int
    latches: frozenset[int]
    body: frozenset[int]


@kept(16)
def loops(graph: Graph) -> tuple[NaturalLoop, ...]:
    """The natural loops of a graph, outer before inner; exception handlers count as ways.

    Args:
        graph: the blocks.

    Returns:
        One loop per header. What goes round without a single header (see `is_reducible`) is not
        among them.
    """
    parents = immediate_dominators(graph)
    sources = predecessors(graph)
    found = []
    for header in sorted(parents):
        latches = frozenset(b for b in sources[header] if dominates(parents, header, b))
        if latches:
            found.append(NaturalLoop(header, latches, _body(header, latches, sources)))
    return tuple(sorted(found, key=lambda loop: (-len(loop.body), loop.header)))


def is_reducible(graph: Graph) -> bool:
    """True if every cycle passes the header of a natural loop, as in all compiled source."""
    parents = immediate_dominators(graph)
    sources = predecessors(graph)
    forward = nx.DiGraph(
        (source, block)
        for block, found in sources.items()
        for source in found
        if not dominates(parents, block, source)
    )
    # Without the edges that close natural loops nothing must go round.
    return bool(nx.is_directed_acyclic_graph(forward))


def dominates(parents: Mapping[int, int | None], upper: int, lower: int) -> bool:
    """True if every way from the entry to `lower` passes `upper`; a block dominates itself.

    Args:
        parents: immediate dominators.
        upper: block index.
        lower: block index.
    """
    current: int | None = lower
    while current is not None and current != upper:
        current = parents[current]
    return current == upper


def _body(
    header: int, latches: frozenset[int], sources: Mapping[int, frozenset[int]]
) -> frozenset[int]:
    body = {header, *latches}
    work = [latch for latch in latches if latch != header]
    while work:
        fresh = sources[work.pop()] - body
        body |= fresh
        work += fresh
    return frozenset(body)
