from __future__ import annotations

import pytest

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import EXIT, Graph, build
from graphmend_bc.code.analysis.regions import Region, region_of, single_entry
from graphmend_bc.code.listing import decode
from tests.code.kit import graph_of, marks, standard_library


def first_region(graph: Graph) -> Region:
    """Of the first conditional jump that looks at a value."""
    block = next(b for b in graph.blocks if graph.last(b).name in facts.TESTS)
    return region_of(graph, block.index)


def described(graph: Graph, region: Region) -> str:
    """Marks in the arms and at the join: "B|C to D"."""
    names = {block: name for name, block in sorted(marks(graph).items())}
    arms = ["".join(names.get(b, "") for b in sorted(arm.blocks)) for arm in region.arms]
    join = "end" if region.join == EXIT else names.get(region.join, "?")
    return f"{'|'.join(arms)} to {join}"


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("def f(c):\n if c: A\n else: B\n C(c, c, c)", "A|B to C"),
        ("def f(c):\n if c: A\n C(c, c, c)", "A| to C"),
        ("def f(c):\n if not c: A\n C(c, c, c)", "A| to C"),
        ("def f(c):\n if c: A\n elif c(): B\n else: C\n D(c, c, c)", "A|BC to D"),
        ("def f(c):\n if c:\n  A\n  if c(): B\n D(c, c, c)", "AB| to D"),
        ("def f(c):\n if c:\n  A\n  return\n B(c, c, c)", "A|B to end"),
        ("def f(c):\n if c:\n  A\n  raise c\n B(c, c, c)", "A|B to end"),
        ("def f(c):\n x = c(A if c else B)\n return x(c, c)", "A|B to ?"),
        ("def f(c):\n for x in c:\n  if x: A\n  else: B\n  C(c, c, c)", "A|B to C"),
    ],
)
def test_regions(source: str, want: str) -> None:
    graph = graph_of(source)
    region = first_region(graph)
    assert described(graph, region) == want
    assert single_entry(graph, region)
    assert [arm.taken_by_jump for arm in region.arms] == [False, True]


def test_an_empty_arm_starts_at_the_join() -> None:
    graph = graph_of("def f(c):\n if c: A\n C(c, c, c)")
    region = first_region(graph)
    assert region.arms[1].blocks == frozenset()
    assert region.arms[1].entry == region.join


def test_arms_may_share_a_tail() -> None:
    graph = graph_of("def f(c, d):\n if c and d: A\n else: B\n C(c, c, c)")
    region = first_region(graph)
    mark = marks(graph)
    assert [mark["B"] in arm.blocks for arm in region.arms] == [True, True]
    assert single_entry(graph, region)


def test_an_arm_entered_from_elsewhere() -> None:
    """The second test of `c and d` has an arm that the first leads to as well."""
    graph = graph_of("def f(c, d):\n if c and d: A\n else: B\n C(c, c, c)")
    second = [b for b in graph.blocks if graph.last(b).name in facts.TESTS][1]
    region = region_of(graph, second.index)
    assert described(graph, region) == "A|B to C"
    assert not single_entry(graph, region)


def test_a_loop_is_an_arm_that_holds_the_branch() -> None:
    graph = graph_of("def f(c):\n for x in c: A\n B(c, c, c)")
    header = next(b for b in graph.blocks if graph.last(b).name == "FOR_ITER")
    region = region_of(graph, header.index)
    assert header.index in region.arms[0].blocks
    assert not single_entry(graph, region)


def test_other_blocks_have_no_region() -> None:
    graph = graph_of("def f(c):\n if c: A\n B(c, c, c)")
    last = graph.blocks[marks(graph)["B"]]
    with pytest.raises(ValueError, match=r"Block \d of f has no region: it ends in RETURN_"):
        region_of(graph, last.index)


def test_arms_of_the_standard_library_meet_at_the_join_only() -> None:
    count = 0
    for code in standard_library(every=200):
        graph = build(decode(code))
        if len(graph.blocks) > 60:
            continue
        for block in graph.blocks:
            if graph.last(block).name not in facts.TESTS:
                continue
            try:
                region = region_of(graph, block.index)
            except ValueError:
                continue  # dead code
            count += 1
            for arm in region.arms:
                assert region.join not in arm.blocks
                ways = {e.target for b in arm.blocks for e in graph.blocks[b].successors}
                assert ways <= arm.blocks | {region.join}
    assert count > 100
