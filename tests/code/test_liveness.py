from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import Block, Graph, build
from graphmend_bc.code.analysis.liveness import cell_names, live_before, live_in, reads, writes
from graphmend_bc.code.assemble import Emit, Label, assemble, relist
from graphmend_bc.code.header import Header
from graphmend_bc.code.listing import decode
from tests.code.generated import coins, programs, run
from tests.code.kit import function, graph_of, mark_ops, standard_library


def described(source: str) -> str:
    """Live locals at each mark: "A:xy B:"."""
    graph = graph_of(source)
    live = {name: live_before(graph, index) for name, index in mark_ops(graph).items()}
    return " ".join(f"{name}:{''.join(sorted(names))}" for name, names in live.items())


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("def f(x, y):\n A\n if x: B; x = y\n C(y, y)\n return x", "A:xy B:y C:xy"),
        ("def f(x, y):\n A\n if x: B; x = y\n else: D; x = 1\n C(y, y)\n return x", "A:xy B:y C:xy D:y"),
        ("def f(x, y):\n for x in y:\n  A\n  y = x\n B(y, y)\n return y()", "A:x B:y"),
        ("def f(x, y):\n if x:\n  A\n  del y\n B(x, x)\n return x()", "A:xy B:x"),
        ("def f(x, y):\n try:\n  A\n  y = 1\n except KeyError: B; return y()\n return y", "A:y B:y"),
        ("def f(x, y):\n try:\n  A\n  x = 1\n finally: y()\n return x", "A:y"),
        ("def f(x, y):\n A\n with x as y: B(y)\n return y()", "A:xy B:y"),
        ("def f(x, y):\n A\n return [y for y in x] + [y]", "A:xy"),
        ("def f(x, y):\n A\n return lambda: x, y", "A:y"),
        ("def f(x, y):\n while x:\n  A\n  yield y\n B(x, x)", "A:xy B:x"),
    ],
)  # fmt: skip
def test_liveness(source: str, want: str) -> None:
    assert described(source) == want


def test_reads_and_writes() -> None:
    graph = graph_of("def f(x):\n y = x\n del y\n return lambda: x")
    named = {op.name: op for op in graph.listing.ops if op.name.endswith("_FAST") and op.arg == "y"}
    assert (reads(named["STORE_FAST"]), writes(named["STORE_FAST"])) == (
        frozenset(),
        frozenset("y"),
    )
    assert (reads(named["DELETE_FAST"]), writes(named["DELETE_FAST"])) == (
        frozenset("y"),
        frozenset("y"),
    )
    assert cell_names(graph) == {"x"}


def test_live_before_an_op() -> None:
    graph = graph_of("def f(x, y):\n x = y\n return x")
    store = next(op for op in graph.listing.ops if op.name == "STORE_FAST")
    assert live_before(graph, store.index) == frozenset()
    assert live_before(graph, store.index + 1) == {"x"}
    assert live_before(graph, store.index - 1) == {"y"}


def live_by_search(graph: Graph, start: int, name: str) -> bool:
    """Whether some way from an op reads a local before it is written, op by op."""
    ops = graph.listing.ops
    seen: set[int] = set()
    work = [start]
    while work:
        index = work.pop()
        if index in seen:
            continue
        seen.add(index)
        op = ops[index]
        if op.handler is not None:
            work.append(op.handler.target)
        if name in reads(op):
            return True
        if name in writes(op):
            continue
        block = graph.block_of(index)
        if index + 1 < block.stop:
            work.append(index + 1)
        else:
            work += [graph.blocks[edge.target].start for edge in block.successors]
    return False


def check_by_search(graph: Graph) -> None:
    live = live_in(graph)
    names = set(graph.listing.code.co_varnames) - cell_names(graph)
    for block in graph.blocks:
        want = {name for name in names if live_by_search(graph, block.start, name)}
        assert live[block.index] == want
    for op in graph.listing.ops[::17]:
        want = {name for name in names if live_by_search(graph, op.index, name)}
        assert live_before(graph, op.index) == want


def test_the_standard_library_by_search() -> None:
    graphs = [build(decode(code)) for code in standard_library(every=150)]
    small = [graph for graph in graphs if 3 <= len(graph.blocks) <= 30]
    assert len(small) > 100
    for graph in small:
        check_by_search(graph)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_programs_by_search(source: str) -> None:
    check_by_search(build(decode(function(source).__code__)))


def _skipped(graph: Graph, block: Block) -> int:
    return len(facts.FOR_ITER_SKIPS) if graph.ops(block)[0].name == "END_FOR" else 0


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs(), coins)
def test_dead_locals_can_be_overwritten(source: str, tosses: list[bool]) -> None:
    """At the start of every block, each local that is not live gets a wrong value.

    Where a FOR_ITER is done, that is behind the ops it skips.
    """
    program = function(source)
    graph = build(decode(program.__code__))
    names = set(graph.listing.code.co_varnames) - cell_names(graph)
    live = live_in(graph)
    dead = {
        block.start + _skipped(graph, block): sorted(names - live[block.index])
        for block in graph.blocks[1:]
    }
    items: list[Emit | Label] = []
    index = 0
    for item in relist(graph.listing):
        if isinstance(item, Emit):
            for name in dead.get(index, ()):
                items.append(Emit("LOAD_CONST", "dead", handler=item.handler))
                items.append(Emit("STORE_FAST", name, handler=item.handler))
            index += 1
        items.append(item)
    poisoned = function(source)
    poisoned.__code__ = assemble(Header.of(program.__code__), items).code
    assert run(poisoned, tosses) == run(program, tosses)
