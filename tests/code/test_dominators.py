from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings

from graphmend_bc.code.analysis.blocks import EXIT, Graph, build
from graphmend_bc.code.analysis.dominators import immediate_dominators, immediate_postdominators
from graphmend_bc.code.listing import decode
from tests.code.generated import programs
from tests.code.kit import check_parents, function, graph_of, marks, standard_library

PROGRAMS = {
    "diamond": """
        def f(c):
            A
            if c: B
            else: C
            D(c, c, c, c)
        """,
    "chain": """
        def f(c):
            A
            if c == 1: B
            elif c == 2: C
            else: D
            E(c, c, c, c)
        """,
    "early return": """
        def f(c):
            A
            if c:
                B
                return 1
            C
            return c(c, c, c)
        """,
    "raise": """
        def f(c):
            A
            if c:
                B
                raise ValueError
            C
            return c(c, c, c)
        """,
    "loop": """
        def f(c):
            A
            for x in c:
                B
                if x: C; continue
                if c: D; break
                E
            else:
                F
            G(c, c, c, c)
        """,
    "handler": """
        def f(c):
            A
            try:
                B
            except ValueError:
                C
            D(c, c, c, c)
        """,
    "for ever": """
        def f(c):
            A
            if c:
                while True: B
            C(c, c, c, c)
        """,
}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("diamond", "B<A C<A D<A"),
        ("chain", "B<A C<A D<A E<A"),
        ("early return", "B<A C<A"),
        ("raise", "B<A C<A"),
        ("loop", "B<A C<B D<B E<B F<A G<A"),
        ("handler", "B<A C<B D<B"),
        ("for ever", "B<A C<A"),
    ],
)
def test_dominators(name: str, want: str) -> None:
    check_parents(immediate_dominators, PROGRAMS[name], want)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("diamond", "A<D B<D C<D D<end"),
        ("chain", "A<E B<E C<E D<E E<end"),
        ("early return", "A<end B<end C<end"),
        ("raise", "A<end B<end C<end"),
        ("loop", "A<G B<G C<G D<G E<G F<G G<end"),
        ("handler", "A<B B<D C<D D<end"),
        ("for ever", "A<end B<end C<end"),
    ],
)
def test_postdominators(name: str, want: str) -> None:
    check_parents(immediate_postdominators, PROGRAMS[name], want)


def test_blocks_left_out_are_as_if_no_way_led_there() -> None:
    graph = graph_of(PROGRAMS["raise"])
    mark = marks(graph)
    without = immediate_postdominators(graph, without=frozenset({mark["B"]}))
    assert without[mark["A"]] == mark["C"]
    assert mark["B"] not in without


def test_without_exceptions_handlers_have_no_dominator() -> None:
    graph = graph_of(PROGRAMS["handler"])
    mark = marks(graph)
    found = immediate_dominators(graph, exceptional=False)
    assert mark["C"] not in found
    assert found[0] is None


def reached(
    start: int, ways: Callable[[int], tuple[int, ...]], without: int | None = None
) -> set[int]:
    seen: set[int] = set()
    work = [start]
    while work:
        index = work.pop()
        if index not in seen and index != without:
            seen.add(index)
            work += ways(index)
    return seen


def ancestors(parents: dict[int, int | None] | dict[int, int], block: int) -> set[int]:
    found: set[int] = set()
    current = parents.get(block)
    while current is not None:
        found.add(current)
        current = parents.get(current)
    return found


def check_by_taking_blocks_away(graph: Graph) -> None:
    """A block dominates just those that cannot be reached once it is gone; likewise towards EXIT."""
    parents = immediate_dominators(graph)

    def onward(index: int) -> tuple[int, ...]:
        return graph.exits(graph.blocks[index])

    alive = reached(0, onward)
    assert set(parents) == alive
    for block in alive:
        lost = alive - reached(0, onward, without=block) - {block}
        assert lost == {other for other in alive if block in ancestors(parents, other)}

    into: dict[int, list[int]] = {index: [] for index in (*alive, EXIT)}
    for index in alive:
        for target in {edge.target for edge in graph.blocks[index].successors} or {EXIT}:
            into[target].append(index)

    def back(index: int) -> tuple[int, ...]:
        return tuple(into[index])

    finite = reached(EXIT, back)
    if finite != alive | {EXIT}:
        return  # a loop for ever: its way to EXIT is made up
    after = immediate_postdominators(graph)
    for block in alive:
        lost = finite - reached(EXIT, back, without=block) - {block}
        assert lost == {other for other in alive if block in ancestors(after, other)}


def test_the_standard_library_by_taking_blocks_away() -> None:
    graphs = [build(decode(code)) for code in standard_library(every=100)]
    small = [graph for graph in graphs if 3 <= len(graph.blocks) <= 40]
    assert len(small) > 100
    for graph in small:
        check_by_taking_blocks_away(graph)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_programs_by_taking_blocks_away(source: str) -> None:
    check_by_taking_blocks_away(build(decode(function(source).__code__)))
