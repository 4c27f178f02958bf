"""The region of a branch: what lies between a conditional jump and where its ways meet."""

from __future__ import annotations

from dataclasses import dataclass

from graphmend_bc.code.analysis.blocks import Edge, Graph, predecessors
from graphmend_bc.code.analysis.dominators import immediate_postdominators


@dataclass(frozen=True, slots=True)
class RegionArm:
    """One of the two ways from a branch to its join.

    Attributes:
        entry: the block it starts with; the join itself if the arm is empty.
        taken_by_jump: True if the branch jumps here, False if it falls through.
        blocks: its blocks: all that can be reached from the entry without passing the join. Arms
            may share blocks. If the arm goes round a loop, the branch may be among them.
    """

    entry: int
    taken_by_jump: bool
    blocks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Region:
    """A branch with its arms.

    Attributes:
        branch: the block that ends in the conditional jump.
        join: the first block that both ways must pass, `EXIT` if there is none. It is no part of
            the arms.
        arms: the way that falls through, then the one that is jumped to.
    """

    branch: int
    join: int
    arms: tuple[RegionArm, RegionArm]


def region_of(graph: Graph, block_index: int) -> Region:
    """The region of a branch, along normal edges.

    Args:
        graph: the blocks.
        block_index: a block that ends in a conditional jump, FOR_ITER and SEND included.

    Raises:
        ValueError: the block does not end in a conditional jump, or cannot be reached.

    Example:
        For `if c: x = 1` the falling-through arm has one block, and the other is empty.
    """
    edges = graph.blocks[block_index].successors
    if len(edges) != 2:
        raise ValueError(
            f"Block {block_index} of {graph.qualname} has no region: it ends in "
            f"{graph.last(graph.blocks[block_index]).name}, which is no conditional jump."
        )
    joins = immediate_postdominators(graph)
    if block_index not in joins:
        raise ValueError(
            f"Block {block_index} of {graph.qualname} cannot be reached, so it has no region."
        )
    join = joins[block_index]
    return Region(block_index, join, (_arm(graph, edges[0], join), _arm(graph, edges[1], join)))


def single_entry(graph: Graph, region: Region) -> bool:
    """True if the arms can be entered by the branch only.

    Edges from one arm into the other are allowed, and so are edges to the branch from anywhere,
    unless it lies in an arm. Edges from protected blocks to their handlers count.
    """
    inside = region.arms[0].blocks | region.arms[1].blocks
    allowed = inside | {region.branch}
    sources = predecessors(graph)
    return all(sources[block] <= allowed for block in inside)


def blocks_until(graph: Graph, entry: int, join: int) -> frozenset[int]:
    """The blocks that can be reached from a block without passing another.

    Args:
        graph: the blocks.
        entry: where to start; counted, unless it is the join.
        join: where to stop, or `EXIT`; not counted.
    """
    blocks: set[int] = set()
    work = [entry]
    while work:
        index = work.pop()
        if index in blocks or index == join:
            continue
        blocks.add(index)
        work += [onward.target for onward in graph.blocks[index].successors]
    return frozenset(blocks)


def _arm(graph: Graph, edge: Edge, join: int) -> RegionArm:
    return RegionArm(edge.target, edge.jump, blocks_until(graph, edge.target, join))
