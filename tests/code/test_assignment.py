from __future__ import annotations

from types import FrameType

import pytest
from hypothesis import HealthCheck, given, settings

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.assignment import (
    definitely_assigned,
    definitely_assigned_before,
    possibly_assigned,
    possibly_assigned_before,
)
from graphmend_bc.code.analysis.blocks import Graph, build
from graphmend_bc.code.analysis.liveness import cell_names
from graphmend_bc.code.listing import decode
from tests.code.generated import coins, programs, run
from tests.code.kit import function, graph_of, mark_ops, standard_library, trace_ops


def described(source: str) -> str:
    """At each mark the locals that are assigned, those only perhaps in brackets: "A:x B:x(y)"."""
    graph = graph_of(source)
    parts = []
    for name, index in mark_ops(graph).items():
        sure = definitely_assigned_before(graph, index)
        perhaps = "".join(sorted(possibly_assigned_before(graph, index) - sure))
        parts.append(f"{name}:{''.join(sorted(sure))}" + (f"({perhaps})" if perhaps else ""))
    return " ".join(parts)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("def f(c):\n if c: A; x = 1\n B(c, c, c)", "A:c B:c(x)"),
        ("def f(c):\n if c: A; x = 1\n else: x = 2\n B(c, c, c)", "A:c B:cx"),
        ("def f(c):\n if c:\n  A\n  return\n x = 1\n if c: B\n C(c, c, c)", "A:c B:cx C:cx"),
        ("def f(c):\n for x in c: A; y = 1\n B(c, c, c)", "A:cx(y) B:c(xy)"),
        ("def f(c):\n if c: A; del c\n B(f, f, f)", "A:c B:(c)"),
        ("def f(c):\n try:\n  x = c()\n  y = c()\n except KeyError: A\n B(c, c, c)", "A:c(x) B:c(xy)"),
        ("def f(c):\n try: A\n except KeyError as x: B\n C(c, c, c)", "A:c B:cx C:c"),
        ("def f(c, *d, e, **g):\n if c: A", "A:cdeg"),
        ("def f(c):\n x = 1\n if c: A\n return lambda: x", "A:c"),
        ("def f(c):\n y = [x for x in c]\n if y: A\n B(c, c, c)", "A:cy B:cy"),
        ("def f(c):\n x = 1\n y = [x for x in c]\n if y: A\n B(c, c, c)", "A:cxy B:cxy"),
        ("def f(c):\n if c: x = 1\n y = [[x for x in a] for x in c]\n if y: A\n B(c, c)", "A:cy(x) B:cy(x)"),
    ],
)  # fmt: skip
def test_assignment(source: str, want: str) -> None:
    assert described(source) == want


def test_before_an_op() -> None:
    graph = graph_of("def f(c):\n x = c\n del x\n return c")
    store = next(op for op in graph.listing.ops if op.name == "STORE_FAST")
    assert definitely_assigned_before(graph, store.index) == {"c"}
    assert definitely_assigned_before(graph, store.index + 1) == {"c", "x"}
    assert possibly_assigned_before(graph, store.index + 2) == {"c"}


def test_dead_code_has_no_answer() -> None:
    graph = graph_of("def f(c):\n try: pass\n except KeyError: A\n return c")
    dead = next((op for op in graph.listing.ops if op.name == "PUSH_EXC_INFO"), None)
    if dead is None:
        pytest.skip("this compiler leaves no dead code")
    with pytest.raises(ValueError, match=rf"Op {dead.index} of f cannot be reached"):
        definitely_assigned_before(graph, dead.index)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(cells=False), coins)
def test_real_runs_agree(source: str, tosses: list[bool]) -> None:
    """Before every op that runs, what is sure is there, and what is there was possible."""
    program = function(source)
    graph = build(decode(program.__code__))
    sure, perhaps = definitely_assigned(graph), possibly_assigned(graph)
    cells = cell_names(graph)
    starts = {graph.listing.ops[block.start].offset: block for block in graph.blocks}
    singles = {op.offset: op.index for op in graph.listing.ops[::9]}
    seen: set[tuple[int, frozenset[str]]] = set()

    # 3.13.0 crashes on f_locals while a cell is set aside: hence programs without cells.
    def look(offset: int, frame: FrameType) -> None:
        seen.add((offset, frozenset(frame.f_locals) - cells))

    trace_ops(lambda: run(program, tosses), program.__code__, look)
    assert seen
    for offset, bound in seen:
        block = starts.get(offset)
        if block is not None and graph.listing.at_offset(offset).index == block.start:
            assert sure[block.index] <= bound <= perhaps[block.index]
        index = singles.get(offset)
        if index is not None and graph.listing.at_offset(offset).index == index:
            assert definitely_assigned_before(graph, index) <= bound
            assert bound <= possibly_assigned_before(graph, index)


def test_the_compiler_trusts_no_more_than_we_do() -> None:
    """From 3.12 on, LOAD_FAST stands only where the compiler knows the local to be assigned.

    The compiler follows no exceptions, and takes a handler's locals to be unknown; so it may also check
    where there is no need.
    """
    if facts.LOAD_FAST_CHECKS:
        pytest.skip("on this version LOAD_FAST itself checks")
    count = 0
    for code in standard_library(every=150):
        graph = build(decode(code))
        if not _checked(graph) or len(graph.listing.ops) > 400:
            continue
        cells = cell_names(graph)
        entry = definitely_assigned(graph)
        for op in graph.listing.ops:
            trusted = op.name == "LOAD_FAST" and isinstance(op.arg, str) and op.arg not in cells
            if trusted and graph.block_of(op.index).index in entry:
                count += 1
                assert op.arg in definitely_assigned_before(graph, op.index) | _checked(graph)
    assert count > 20


def _checked(graph: Graph) -> set[str]:
    """Locals that some LOAD_FAST_CHECK finds assigned, so that later ops may trust in it."""
    return {op.arg for op in graph.listing.ops if op.name == "LOAD_FAST_CHECK"}
