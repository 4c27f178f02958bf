"""Forms of code that some versions of CPython compile in a way of their own, read and written again."""

from __future__ import annotations

import asyncio
import dis
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.stack import depths
from graphmend_bc.code.listing import decode
from tests.code.kit import codes_in, function, observe, reassembled


def again(made: types.FunctionType) -> types.FunctionType:
    """A function of the same code, read and written once more."""
    copy = types.FunctionType(
        reassembled(made.__code__), made.__globals__, None, made.__defaults__, made.__closure__
    )
    copy.__kwdefaults__ = made.__kwdefaults__
    return copy


class Context:
    """Writes down what a `with` block asks of it."""

    def __init__(self, swallows: bool = False) -> None:
        self.log: list[Any] = []
        self.swallows = swallows

    def __enter__(self) -> Context:
        self.log.append("enter")
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool:
        self.log.append(("exit", kind, value and value.args))
        return self.swallows


@pytest.mark.parametrize("swallows", [False, True])
@pytest.mark.parametrize("x", [0, 1, 2])
def test_with_blocks(swallows: bool, x: int) -> None:
    program = function(
        """
        def f(outer, inner, x):
            for i in range(3):
                with outer as o, inner:
                    o.log.append(i)
                    if i == x:
                        return 1 // x
                    if i > x and x:
                        break
            return "end"
        """
    )
    seen = []
    for each in (program, again(program)):
        outer, inner = Context(swallows), Context()
        seen.append((observe(lambda: each(outer, inner, x)), outer.log, inner.log))  # noqa: B023
    assert seen[0] == seen[1]


def test_an_object_is_kept_as_long_as_it_is_needed() -> None:
    program = function(
        """
        def f(x, y):
            kept = [x, (x := y), x]
            def inner(): return kept
            for x in kept:
                y = [x, (y, del_(x))]
            return y
        """,
        del_=sys.getrefcount,
    )

    class Thing: ...

    one, two = Thing(), Thing()
    before = sys.getrefcount(one), sys.getrefcount(two)
    made = again(program)
    result = made(one, two)
    assert result[0] is two
    del result
    assert (sys.getrefcount(one), sys.getrefcount(two)) == before
    names = {each.opname for each in dis.get_instructions(made.__code__)}
    assert not names & facts.READ_AS.keys()


def test_annotations() -> None:
    program = function(
        """
        def f(a, local):
            class Record:
                x: local
                if a:
                    y: "text"
                else:
                    z: unknown_name
            def g(x: local, *, y: "later" = 1) -> list[local]: return x
            try:
                found = Record.__annotations__
            except NameError as error:
                found = error.name
            return found, g.__annotations__, g(2)
        """
    )
    for a in (True, False):
        assert observe(lambda: again(program)(a, int)) == observe(lambda: program(a, int))  # noqa: B023


TEMPLATE = """
def f(x, width):
    t = t"a{x}b{x!r:>{width}}c{x:3}{f'{x}'!s}"
    return t.strings, [(i.value, i.expression, i.conversion, i.format_spec) for i in t.interpolations]
"""


@pytest.mark.skipif("BUILD_TEMPLATE" not in dis.opmap, reason="This version has no t-strings.")
def test_template_strings() -> None:
    program = function(TEMPLATE)
    assert again(program)(7, 4) == program(7, 4)
    first, second = decode(program.__code__).ops, decode(again(program).__code__).ops
    assert [(op.name, op.arg) for op in first] == [(op.name, op.arg) for op in second]
    assert depths(decode(program.__code__).ops).highest == program.__code__.co_stacksize


@pytest.mark.skipif(sys.version_info < (3, 13), reason="This version has no such defaults.")
def test_defaults_of_type_parameters() -> None:
    program = function("def f():\n def g[T = int](x: T) -> T: return x\n return g.__type_params__")
    assert again(program)()[0].__default__ is int


class Numbers:
    """An asynchronous iterator."""

    def __init__(self) -> None:
        self.left = [3, 2, 1]

    def __aiter__(self) -> Numbers:
        return self

    async def __anext__(self) -> int:
        if not self.left:
            raise StopAsyncIteration
        return self.left.pop()


BRANCHES = """
async def f(numbers, a):
    out = []
    async for x in numbers:
        try:
            if x > 1 and a or x == a:
                out.append(x)
            while a and x:
                x -= 1
        finally:
            out += [y for y in range(x) if y is not None]
    return out, all(z for z in out), None if a else 1
"""


@pytest.mark.skipif(not facts.HAS_NOT_TAKEN, reason="The events have other names.")
@pytest.mark.parametrize("a", [0, 1])
def test_monitoring_tools_see_the_same_branches(a: int) -> None:
    program = function(BRANCHES)
    events = [branches_of(each, a) for each in (program, again(program))]
    assert len(set(events[0])) > 10
    assert events[0] == events[1]


def branches_of(made: Callable[..., Any], a: int) -> list[tuple[str, Any, Any]]:
    """The branch events of a call, with the lines that each comes from and goes to."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
    tool, kinds = monitoring.DEBUGGER_ID, monitoring.events
    seen: list[tuple[str, Any, Any]] = []

    def note(name: str) -> Callable[..., None]:
        def noted(code: types.CodeType, start: int, end: int) -> None:
            places = list(code.co_positions())
            seen.append((name, places[start // 2], places[end // 2]))

        return noted

    codes = list(codes_in(made.__code__))
    monitoring.use_tool_id(tool, "test")
    monitoring.register_callback(tool, kinds.BRANCH_LEFT, note("left"))
    monitoring.register_callback(tool, kinds.BRANCH_RIGHT, note("right"))
    for code in codes:
        monitoring.set_local_events(tool, code, kinds.BRANCH_LEFT | kinds.BRANCH_RIGHT)
    try:
        asyncio.run(made(Numbers(), a))
    finally:
        for code in codes:
            monitoring.set_local_events(tool, code, 0)
        monitoring.free_tool_id(tool)
    return seen
