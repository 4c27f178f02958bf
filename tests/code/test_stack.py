from __future__ import annotations

import dis
from dataclasses import replace

import pytest
from bytecode.instr import STATIC_STACK_EFFECTS

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import build
from graphmend_bc.code.analysis.stack import (
    depth_at,
    depth_before,
    depths,
    lowest_depth,
    stack_effect,
)
from graphmend_bc.code.analysis.stack_reach import reach
from graphmend_bc.code.listing import Op, decode
from tests.code.kit import graph_of, mark_ops, marks, standard_library


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("def f(c):\n A\n if c: B\n C(c, c, c)", "A0 B0 C0"),
        ("def f(c):\n for x in c: A\n B(c, c, c)", "A1 B0"),
        ("def f(c):\n for x in c:\n  for y in x: A\n B(c, c, c)", "A2 B0"),
        ("def f(c):\n with c: A\n B(c, c, c)", f"A{facts.EXIT_SLOTS} B0"),
        ("def f(c):\n try: A\n except ValueError: B\n C(c, c, c)", "A0 B1 C0"),
        ("def f(c):\n try: A\n finally: c(c, c)\n B(c, c, c)", "A0 B0"),
        ("def f(c):\n yield\n A", "A0"),
        ("async def f(c):\n async for x in c: A", "A1"),
    ],
)
def test_depths(source: str, want: str) -> None:
    graph = graph_of(source)
    found = depth_at(graph)
    # A mark's block may begin before it with things that are gone by then; look at the mark itself.
    marked = mark_ops(graph).items()
    assert " ".join(f"{name}{depth_before(graph, index)}" for name, index in marked) == want
    assert found[0] == 0


def test_values_that_wait_below_a_branch_count() -> None:
    graph = graph_of("def f(g, c):\n x = g(1, A if c else B)\n return x(x, x, x)")
    found = depth_at(graph)
    mark = marks(graph)
    # The callable with its NULL, and 1.
    assert (found[mark["A"]], found[mark["B"]]) == (3, 3)
    assert lowest_depth(graph, [mark["A"], mark["B"]]) == 3
    join = next(b for b in graph.blocks if found.get(b.index) == 4)
    assert lowest_depth(graph, [join.index]) == 0


def test_a_value_kept_by_or() -> None:
    graph = graph_of("def f(g, c):\n x = g(c or A)\n return x")
    found = depth_at(graph)
    assert found[marks(graph)["A"]] == (3 if not facts.HAS_JUMP_IF_OR_POP else 2)


def test_moves_count_as_reaching_down() -> None:
    graph = graph_of("def f(a, b):\n a.x[a], b = b, a\n return a < b < a")
    lowest = lowest_depth(graph, range(len(graph.blocks)))
    assert lowest == 0
    swap = next(op for op in graph.listing.ops if op.name == "SWAP")
    assert reach("SWAP", swap.arg) == swap.arg
    assert stack_effect(swap, jump=False) == 0


def test_dead_code_has_no_depth() -> None:
    graph = graph_of("def f(c):\n return c")
    with pytest.raises(ValueError, match="No block asked about in f can be reached"):
        lowest_depth(graph, [])


def test_every_op_has_a_reach() -> None:
    for name, number in dis.opmap.items():
        if number < 256 and not name.startswith("INSTRUMENTED"):
            assert reach(name, 1) >= 0


def test_reach_agrees_with_the_bytecode_library() -> None:
    """Where it lists what an op takes."""
    for number, (takes, _) in STATIC_STACK_EFFECTS.items():
        name = dis.opname[number]
        if name in ("BINARY_SLICE", "DICT_MERGE", "WITH_EXCEPT_START"):
            # Counted with a pattern, without the callable it names in errors, and as before 3.14.
            continue
        assert (name, reach(name, 1)) == (name, -takes)


def test_no_op_takes_more_than_it_reaches() -> None:
    for code in standard_library(every=200):
        for op in decode(code).ops:
            arg = op.arg if isinstance(op.arg, int) and op.arg is not True else 0
            number = arg if op.name not in ("LOAD_CONST", "RETURN_CONST") else 0
            assert reach(op.name, number) >= -min(
                stack_effect(op, jump=False), stack_effect(op, jump=True)
            ), op


def test_depths_are_the_compilers() -> None:
    """Stack size and the depths in the exception table, all from the ops alone."""
    count, higher = 0, 0
    for code in standard_library(every=30):
        listing = decode(code)
        found = depths(listing.ops)
        if None not in found.before:
            assert max(1, found.highest) == max(1, code.co_stacksize)
        known = {op.handler.target: op.handler.depth for op in listing.ops if op.handler}
        for target, depth in found.handlers.items():
            assert depth == known[target]
        try:
            worked_out = depths([_without_depth(op) for op in listing.ops]).handlers
        except ValueError:
            higher += 1
            continue
        for target, depth in worked_out.items():
            expected = known[target]
            assert expected is not None
            # A handler whose block was optimised down to a cleanup is taken to be higher.
            assert depth >= expected
            count += 1
            higher += depth > expected
    assert count > 500
    assert higher <= count // 100


def _without_depth(op: Op) -> Op:
    return op if op.handler is None else replace(op, handler=replace(op.handler, depth=None))


def test_conflicts_are_told() -> None:
    ops = decode((lambda c: c if c else 2).__code__).ops
    short = [op for op in ops if op.name != "LOAD_CONST" or op.arg != 2]
    index = next(op.index for op in ops if op.arg == 2) if len(short) < len(ops) else 0
    if not index:
        index = next(op.index for op in ops if op.name == "RETURN_CONST")
    pops = replace(ops[index], name="POP_TOP")
    with pytest.raises(ValueError, match="takes more values than there are"):
        depths([*ops[:index], pops, *ops[index + 1 :]])
    with pytest.raises(ValueError, match="Control runs off the end"):
        depths(ops[:1])
    graph = build(decode((lambda c: [x for x in c if x]).__code__))
    assert depths(graph.listing.ops).highest >= 1
