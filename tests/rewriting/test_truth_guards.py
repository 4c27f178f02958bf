"""Conditions asked by `Speculate`, loops made `Loop` calls: the same meaning to CPython."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

import pytest

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.blocks import build
from graphmend_bc.code.listing import decode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import Plan, rewrite
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.rewriting.conditions.truth_guards import (
    asks_truth,
    jumps_of_decision,
    speculation_at,
)
from graphmend_bc.rewriting.lifting.rounds import ends_round, round_at
from graphmend_bc.rewriting.plan import AskTruth, LiftLoop, LiftRound
from graphmend_bc.runtime import Site


def with_plan(function: Any, plan: Plan) -> Callable[..., Any]:
    code = rewrite(function.__code__, plan).code
    return types.FunctionType(code, function.__globals__, None, function.__defaults__)


def sites(function: Any) -> list[int]:
    return [op.offset for op in decode(function.__code__).ops if asks_truth(op)]


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> object:
    try:
        return function(*args)
    except Exception as error:
        return type(error), error.args


def many_forms(xs: list[int], t: object) -> Any:
    out: list[Any] = []
    for x in xs:
        if x > 3 or x == -1:
            break
        y = x or 5
        try:
            if not x:
                raise ValueError(x)
            z = not y
            out.append((y, z))
        except ValueError as e:
            out.append(str(e))
        while x > 0:
            x -= 1
    else:
        out.append("else")
    return [o for o in out if o] or t


CALLS = [([1, 2], 7), ([0, 1, 4, 5], 7), ([-1], None), ([2, 0], 7), (["a"], 7)]


@pytest.mark.parametrize("args", CALLS)
def test_all_conditions_asked(args: Any) -> None:
    asked = with_plan(many_forms, Plan(dict.fromkeys(sites(many_forms), AskTruth())))
    assert outcome(asked, args) == outcome(many_forms, args)


@pytest.mark.parametrize("offset", sites(many_forms))
def test_conditions_asked_one_by_one(offset: int) -> None:
    asked = with_plan(many_forms, Plan({offset: AskTruth()}))
    assert [outcome(asked, a) for a in CALLS] == [outcome(many_forms, a) for a in CALLS]


def test_short_circuit_as_one_condition() -> None:
    def f(a: int, b: int, c: int) -> str:
        if (a and b) or c:
            return "yes"
        return "no"

    first = sites(f)[0]
    graph = build(decode(f.__code__))
    block = graph.block_of(graph.listing.at_offset(first).index)
    assert len(jumps_of_decision(graph, block)) > 1
    g = with_plan(f, Plan({first: AskTruth()}))
    calls = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    assert [g(*call) for call in calls] == [f(*call) for call in calls]


def expected(function: Any) -> tuple[bool, bool, bool]:
    """What is expected of the first condition of a function."""
    graph = build(decode(function.__code__))
    op = next(op for op in graph.listing.ops if is_condition(op))
    site = Site.of(function.__code__, op.name, op.offset, 1)
    speculation = speculation_at(graph, op, site, alone=False)
    return speculation.likely, speculation.firm, speculation.unbounded


def raising(x: Any) -> Any:
    if x.bad:
        raise ValueError(x)
    return x


def complaining(x: Any, logger: Any) -> Any:
    if x.odd:
        logger.warning("odd")
    return x


def leaving(xs: Any) -> Any:
    for x in xs:
        if x.done:
            break
        print(x)
    return xs


def endless(x: Any) -> Any:
    while True:
        x = x.next
        if x.done:
            break
        x.visit()
    return x


def checking(torch: Any, x: Any) -> Any:
    if torch.isnan(x).any():
        x = x.fixed
    return x


def empty(x: Any) -> Any:
    if x.count == 0:
        return None
    return x


def full(x: Any) -> Any:
    if not (x.count != 0):
        x = x.fixed
    return x


def plain(x: Any) -> Any:
    if x.some:
        x = x.other
    return x


@pytest.mark.parametrize(
    ("function", "expectation"),
    [
        (raising, (False, True, False)),
        (complaining, (False, False, False)),
        (leaving, (False, False, False)),
        (endless, (False, False, True)),
        (checking, (False, False, False)),
        (empty, (False, False, False)),
        (full, (True, False, False)),
        (plain, (True, False, False)),
    ],
)
def test_what_is_expected(function: Any, expectation: tuple[bool, bool, bool]) -> None:
    assert expected(function) == expectation


def counting(x: int, n: int) -> Any:
    while x < 100:
        x = x * 2
        n += 1
    return x, n


def nested(x: int, y: int, n: int) -> Any:
    k = 0
    for _ in range(3):
        while not x > 50:
            t = x * n
            x = t + 1
            if n:
                k += 1
            for _ in range(2):
                y -= 1
    return x, k, y


def in_block(x: int, n: int) -> Any:
    with contextlib.suppress(ValueError):
        while x < 100:
            x = x * 2
            n += 1
    return x, n


def with_else(x: int, y: int) -> Any:
    while x and y:
        x -= 1
        _z = x
    else:
        x -= 10
    return x, y


def flagged(x: int) -> Any:
    done = False
    while not done:
        x = x + 1
        done = x > 7
    return x


def meeting(x: int) -> Any:
    y = 0
    while True:
        x = x + 1
        if x > 7:
            break
        y += x
    return x, y


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (counting, [(1, 2), (200, 1)]),
        (nested, [(3, 4, 5), (60, 9, 0), (2, 3, 1)]),
        (in_block, [(1, 2), (200, 1)]),
        (with_else, [(3, 4), (2, 0)]),
        *([] if facts.WHILE_TESTS_TWICE else [(flagged, [(3,), (9,)]), (meeting, [(3,), (9,)])]),
    ],
)
def test_loops_as_functions_of_a_round(function: Any, calls: list[tuple[int, ...]]) -> None:
    graph = build(decode(function.__code__))
    plan = Plan()
    for block in graph.blocks:
        last = graph.last(block)
        if is_condition(last):
            try:
                round_at(graph, block)
            except Refused:
                continue
            plan = plan.with_all({last.offset: LiftLoop()})
            break
    assert plan
    looping = with_plan(function, plan)
    assert [looping(*call) for call in calls] == [function(*call) for call in calls]


def doing(x: int) -> Any:
    while True:
        x = x + 1
        y = x * 2
        if x > 5:
            break
    return x, y


def repeating(x: int, n: int) -> Any:
    out = []
    for i in range(3):
        while True:
            x += 1
            if n == 2:
                x += 5
            if x > i * 10 and (n or x % 2):
                break
        out.append(x)
    return out


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (doing, [(1,), (9,)]),
        (repeating, [(3, 4), (1, 0), (2, 2)]),
        *([(flagged, [(3,), (9,)])] if facts.WHILE_TESTS_TWICE else []),
    ],
)
def test_loops_without_a_guard(function: Any, calls: list[tuple[int, ...]]) -> None:
    graph = build(decode(function.__code__))
    ends = [b for b in graph.blocks if is_condition(graph.last(b)) and ends_round(graph, b)]
    looping = with_plan(function, Plan({graph.last(ends[0]).offset: LiftRound()}))
    assert [looping(*call) for call in calls] == [function(*call) for call in calls]


@pytest.mark.skipif(
    not facts.WHILE_TESTS_TWICE, reason="The loop looks like one with its condition in front."
)
def test_other_loops_are_refused() -> None:
    graph = build(decode(endless.__code__))
    block = next(b for b in graph.blocks if is_condition(graph.last(b)))
    with pytest.raises(Refused, match="no-such-loop"):
        round_at(graph, block)
