from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings

from graphmend_bc.code.analysis.blocks import Graph, build, predecessors, reachable
from graphmend_bc.code.listing import decode
from tests.code.generated import coins, programs, run
from tests.code.kit import function, graph_of, marks, standard_library, trace_ops


def check_partition(graph: Graph) -> None:
    """Blocks cover the ops in order; jumps lead to starts and stand at ends; one handler a block."""
    stop = 0
    starts = {block.start for block in graph.blocks}
    for index, block in enumerate(graph.blocks):
        assert (block.index, block.start) == (index, stop)
        stop = block.stop
        ops = graph.ops(block)
        covered = [op for op in ops if op.name != "NOT_TAKEN"] or ops
        assert len({op.handler for op in covered}) == 1
        assert all(op.target is None for op in ops[:-1])
        assert {op.target for op in ops} - {None} <= starts
    assert stop == len(graph.listing.ops)


def test_the_two_ways_of_an_if() -> None:
    graph = graph_of("def f(c):\n    if c:\n        A\n    B(c, c, c)\n    return c")
    mark = marks(graph)
    fall, jump = graph.blocks[0].successors
    assert (fall.target, fall.jump) == (mark["A"], False)
    assert (jump.target, jump.jump) == (mark["B"], True)
    assert [edge.target for edge in graph.blocks[mark["A"]].successors] == [mark["B"]]
    assert graph.blocks[mark["B"]].successors == ()


def test_protected_blocks_know_their_handler() -> None:
    graph = graph_of(
        "def f(c):\n    A\n    try:\n        B\n    except E:\n        C\n    D(c, c, c)"
    )
    mark = marks(graph)
    handler = graph.blocks[mark["B"]].handler
    assert handler is not None
    assert graph.ops(graph.blocks[handler])[0].name == "PUSH_EXC_INFO"
    assert graph.blocks[mark["A"]].handler is None
    assert mark["C"] in reachable(graph)
    assert mark["C"] not in reachable(graph, exceptional=False)
    assert mark["B"] in predecessors(graph)[handler]
    assert predecessors(graph, exceptional=False)[handler] == frozenset()


def test_ops_and_blocks_find_each_other() -> None:
    graph = graph_of("def f(c):\n    while c:\n        A\n    return c")
    for block in graph.blocks:
        assert all(graph.block_of(op.index) is block for op in graph.ops(block))
        assert graph.last(block) is graph.ops(block)[-1]
    with pytest.raises(IndexError, match=r"f has no op 99, only 0 to"):
        graph.block_of(99)
    with pytest.raises(IndexError, match="f has no op -1"):
        graph.block_of(-1)


def test_the_standard_library_is_parted() -> None:
    for code in standard_library(every=60):
        check_partition(build(decode(code)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), coins)
def test_control_only_goes_along_edges(source: str, tosses: list[bool]) -> None:
    """Each step of a real run stays in a block, or follows an edge, or goes to the handler."""
    program = function(source)
    graph = build(decode(program.__code__))
    offsets = [op.offset for op in graph.listing.ops]
    steps: list[int] = []

    def note(offset: int, frame: FrameType) -> None:
        # An EXTENDED_ARG is seen in place of its op, or as well.
        steps.append(bisect_left(offsets, offset))

    trace_ops(lambda: run(program, tosses), program.__code__, note)
    assert steps
    for here, there in pairwise(steps):
        block, onward = graph.block_of(here), graph.block_of(there)
        within = block is onward and here <= there
        # 3.12 and later run on behind END_FOR, where FOR_ITER's edge says the jump goes to it;
        # 3.11 may run a FOR_ITER at once with the op before it, and show the trace neither.
        skipped = {
            edge.target
            for edge in block.successors
            if graph.ops(graph.blocks[edge.target])[0].name in ("END_FOR", "FOR_ITER")
        }
        assert (
            within
            or onward.index in graph.exits(block)
            or onward.index in skipped
            or onward.index in {e.target for s in skipped for e in graph.blocks[s].successors}
        ), f"{graph.listing.ops[here]} -> {graph.listing.ops[there]}"
