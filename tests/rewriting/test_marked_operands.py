"""Marked callees, slices, items, loops and assignments: the same meaning to CPython."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

from graphmend_bc.code.listing import decode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import Plan, rewrite
from graphmend_bc.rewriting.mark_callee import CALLS
from graphmend_bc.rewriting.operands import SLICES, is_subscript
from graphmend_bc.rewriting.outline import outline_as_call
from graphmend_bc.rewriting.plan import CallOperation, MarkCallee, MarkOperands, Rewrite


def at(function: Any, names: frozenset[str]) -> list[int]:
    return [op.offset for op in decode(function.__code__).ops if op.name in names]


def with_code(function: Any, code: types.CodeType) -> Callable[..., Any]:
    new = types.FunctionType(code, function.__globals__, None, function.__defaults__)
    new.__kwdefaults__ = function.__kwdefaults__
    return new


def check(
    function: Any, mark: Rewrite, offsets: list[int], calls: list[Any], most: int = 0
) -> None:
    """All places at once and each alone; `most` of them may be refused."""
    assert offsets, function
    refused = 0
    for chosen in [offsets, *([offset] for offset in offsets)]:
        try:
            code = rewrite(function.__code__, Plan(dict.fromkeys(chosen, mark))).code
        except Refused:
            refused += 1
            continue
        for call in calls:
            assert outcome(with_code(function, code), call) == outcome(function, call)
    assert refused <= most


def outcome(function: Callable[..., Any], make: Any) -> object:
    """What a call gives, and what it leaves of its arguments."""
    args = make()
    try:
        return function(*args), repr(args)
    except Exception as error:
        return type(error), error.args, repr(args)


def slices(xs: list[int], a: Any, b: Any) -> Any:
    ys = xs[a:b] + xs[a:] + xs[:b] + xs[a:b:2] + xs[:]
    xs[a:b] = [7, 8]
    xs[1:] += [9]
    del xs[:a]
    return ys, [x[a:b] for x in ("abc", "de")]


def test_slices() -> None:
    calls = [
        lambda: ([1, 2, 3, 4], 1, 3),
        lambda: ([1], None, None),
        lambda: ([1, 2], "no", 2),
        lambda: ([1, 2, 3], -2, 9),
    ]
    check(slices, MarkOperands(), at(slices, SLICES), calls)


def loops(xs: Any, more: Any) -> Any:
    out = []
    for x in xs:
        for y in more:
            if x == y:
                continue
            out.append((x, y))
        else:
            out.append(x)
    return out, [x * 2 for x in xs], {y: y for y in more}, tuple(z for z in xs if z)


def test_loops() -> None:
    calls = [
        lambda: ([1, 2], (2, 3)),
        lambda: ("ab", {"b": 1}),
        lambda: (iter([1, 2, 3]), []),
        lambda: (5, []),
        lambda: ([], 5),
        lambda: ([1], None),
    ]
    check(loops, MarkOperands(), at(loops, frozenset({"GET_ITER"})), calls)


def items(box: Any, key: Any) -> Any:
    first = box[key]
    box[key] = [first][0], {key: 2}[key]
    return box[key][1], "abc"[-1]


def test_items() -> None:
    calls = [lambda: ({1: 2}, 1), lambda: ([5, 6], 1), lambda: ({}, "gone"), lambda: (3, [])]
    subscripts = [op.offset for op in decode(items.__code__).ops if is_subscript(op)]
    check(items, CallOperation(), subscripts, calls)


class Leaf:
    requires_grad: Any = None

    def __repr__(self) -> str:
        return f"Leaf({self.requires_grad})"


def assigns(leaf: Any, value: Any) -> Any:
    leaf.requires_grad = value
    leaf.requires_grad = not leaf.requires_grad
    return leaf.requires_grad


def test_assignments() -> None:
    calls = [lambda: (Leaf(), 1), lambda: (Leaf(), ""), lambda: (5, True)]
    check(assigns, CallOperation(), at(assigns, frozenset({"STORE_ATTR"})), calls)


def computes(a: Any, b: Any) -> Any:
    found = [a + b, a - b, a * b, a / b, a // b, a % b, a**b, a << b, a >> b, a & b, a | b, a ^ b]
    for held in found[:2]:
        held += b
        held **= a
        held |= 1
        found.append(held)
    return found, a @ b if a > 6 else None


def test_operators() -> None:
    calls = [lambda: (5, 2), lambda: (-1, 1), lambda: (1, 0), lambda: (7, 1), lambda: ("a", "b")]
    check(computes, CallOperation(), at(computes, frozenset({"BINARY_OP"})), calls)


def called(function: Any, x: Any, *rest: Any) -> Any:
    seen = [function(x)]
    seen.append(function(x, *rest))
    seen.append(function(x, key=len(seen)))
    seen.append(str(x).upper())
    seen.append(max(*rest, key=lambda r: function(r)))
    return seen, function(function(x)), function(*rest, **{"key": 3})


@pytest.mark.parametrize(
    "mark", [MarkCallee(), MarkCallee(in_order=False), MarkCallee(with_use=True)]
)
def test_calls(mark: Rewrite) -> None:
    def tell(*args: Any, key: int = 0) -> Any:
        return len(repr(args)) + key

    def fail(*args: Any) -> Any:
        raise ValueError(*args)

    calls = [
        lambda: (tell, 1, 2, 3),
        lambda: (tell, "x"),
        lambda: (fail, 1, 2),
        lambda: (None, 1),
        lambda: (abs, -1, 2),
    ]
    check(called, mark, at(called, CALLS), calls, most=4)


def whole(a: int, b: int = 2, /, c: int = 3, *, d: int = 4) -> Any:
    def inner() -> Any:
        return a, c

    if d > 5:
        raise ValueError(b)
    return inner(), b, d


def test_functions_as_a_whole() -> None:
    offset = at(whole, frozenset({"COMPARE_OP"}))[0]
    caller, copy = outline_as_call(whole.__code__, offset, "draw")
    new = with_code(whole, caller.code)
    for args, named in (((1,), {}), ((1, 5, 6), {"d": 1}), ((), {"c": 2}), ((1,), {"d": 9})):
        found = outcome(lambda f=new, a=args, n=named: f(*a, **n), lambda: ())
        wanted = outcome(lambda a=args, n=named: whole(*a, **n), lambda: ())
        assert found == wanted
    assert copy.code.co_argcount == 4


def leaves_two_blocks(x: Any, fails: bool) -> Any:
    for _ in range(2):
        try:
            try:
                return x
            except NameError:
                raise
        except Exception as error:
            x = str(error)
            break
    return x


def unbound_in_two_blocks(fails: bool) -> Any:
    if not fails:
        value = 1
    for _ in range(2):
        try:
            try:
                return value
            except NameError:
                raise
        except Exception as error:
            value = str(error)
            break
    return value


def test_blocks_that_only_a_handler_is_in() -> None:
    """Nothing but the exception table tells how deep the operand stack is where the outer handler begins."""
    for function, calls in (
        (leaves_two_blocks, [lambda: (1, True)]),
        (unbound_in_two_blocks, [lambda: (False,), lambda: (True,)]),
    ):
        check(function, "effects", at(function, CALLS), calls)
