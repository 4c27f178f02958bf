from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import Graph, build, predecessors
from graphmend_bc.code.analysis.loops import is_reducible, loops
from graphmend_bc.code.assemble import Emit, Label, assemble, relist
from graphmend_bc.code.header import Header
from graphmend_bc.code.listing import decode
from tests.code.generated import programs
from tests.code.kit import function, graph_of, marks


def described(graph: Graph) -> str:
    """The marks in each loop, outer loops first."""
    names = marks(graph)
    bodies = [
        "".join(name for name, block in sorted(names.items()) if block in loop.body)
        for loop in loops(graph)
    ]
    return " ".join(bodies)


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("def f(a):\n A\n if a: B\n C", ""),
        ("def f(a):\n A\n for x in a: B\n C", "B"),
        ("def f(a):\n A\n for x in a:\n  B\n  for y in x: C\n  D\n E", "BCD C"),
        ("def f(a):\n for x in a:\n  B\n  if x:\n   C\n   continue\n  if a:\n   D\n   break\n  E", "BCE"),
        ("def f(a):\n while a():\n  B\n  if a: C\n D", "BC"),
        ("def f(a):\n while True:\n  B\n  if a: return\n  C", "BC"),
        ("def f(a):\n while True:\n  B\n  try: C\n  except E: D; continue\n  return", "BCDE"),
        ("def f(a):\n for x in a: B\n for y in a: C", "B C"),
    ],
)  # fmt: skip
def test_loops(source: str, want: str) -> None:
    graph = graph_of(source)
    assert described(graph) == want
    assert is_reducible(graph)


def test_headers_and_latches() -> None:
    graph = graph_of("def f(a):\n for x in a:\n  if x: A\n  else: B")
    mark = marks(graph)
    (loop,) = loops(graph)
    assert graph.ops(graph.blocks[loop.header])[0].name == "FOR_ITER"
    sources = predecessors(graph)
    assert loop.latches == sources[loop.header] & loop.body
    assert {mark["A"], mark["B"]} <= loop.body


def test_a_loop_entered_at_two_places_is_no_natural_loop() -> None:
    """No source has one, so it is assembled: a jump from outside into a loop's middle."""
    target = function("def f(a):\n while a: a = a()\n return a")
    items = list(relist(decode(target.__code__)))
    middle, start = Label("middle"), Label("start")
    body = [
        *items[:1],
        Emit("LOAD_CONST", None),
        Emit(_test(), label=middle),
        start,
        Emit("NOP"),
        middle,
        Emit("LOAD_CONST", None),
        Emit(_test(), label=(end := Label("end"))),
        Emit("JUMP_BACKWARD", label=start),
        end,
        Emit("LOAD_CONST", None),
        Emit("RETURN_VALUE"),
    ]
    code = assemble(Header.of(target.__code__), body).code
    graph = build(decode(code))
    assert loops(graph) == ()
    assert not is_reducible(graph)


def _test() -> str:
    return min(name for name in facts.TESTS if name.endswith("IF_NONE") and "BACKWARD" not in name)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(programs())
def test_every_cycle_of_a_program_is_in_a_loop(source: str) -> None:
    graph = build(decode(function(source).__code__))
    assert is_reducible(graph)
    sources = predecessors(graph)
    for loop in loops(graph):
        assert loop.latches <= loop.body
        assert loop.header in loop.body
        # Natural loops are entered at their header only.
        for block in loop.body - {loop.header}:
            assert sources[block] <= loop.body
