"""The rewriter alone: same meaning, same face, and a refusal where it cannot promise that."""

from __future__ import annotations

import inspect
import traceback
import types
from collections.abc import Callable
from typing import Any

import pytest
from bytecode import Bytecode, Instr, Label

from graphmend_bc.code.facts import VERSION
from graphmend_bc.code.listing import decode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import Plan, rewrite, widest_plan
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.rewriting.plan import LiftBranch


def conditions(code: types.CodeType) -> list[int]:
    return [op.offset for op in decode(code).ops if is_condition(op)]


def rewritten(function: Any, plan: Plan | None = None) -> Callable[..., Any]:
    code = rewrite(function.__code__, widest_plan(function.__code__) if plan is None else plan).code
    new = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    new.__kwdefaults__, new.__annotations__ = function.__kwdefaults__, function.__annotations__
    return new


def ladder(a: int, b: int, *rest: int, k: int = 1, **more: int) -> Any:
    """Every form at once."""
    x = a if b > 0 else -a
    if a > 3 and (b > 2 or not k):
        x += 10
    elif a < 0:
        y = [v * 2 for v in rest]
        x += sum(y)
    for i in range(3):
        if i == b:
            continue
        x += i
    z = (a and b) or k
    if x > 40:
        return x, z
    while x < 5:
        x += 1 if a else 2
    return (x, z, f"{x if k else z}", more)


def written_in_both(a: int, b: int) -> tuple[object, int]:
    """An inner branch writes what was bound before the outer one, which does not read it."""
    kept, text = 3, ""
    if a > 0:
        if b > 0:
            kept = 1
        else:
            kept = 2
        text = f"{kept}"
    return text, b


def test_a_local_that_both_inner_arms_write() -> None:
    g = rewritten(written_in_both)
    for a in (1, -1):
        for b in (1, -1):
            assert g(a, b) == written_in_both(a, b)


def test_same_values() -> None:
    g = rewritten(ladder)
    for a in range(-4, 9):
        for b in range(-2, 5):
            for k in (0, 1):
                assert g(a, b, 3, 4, k=k, m=7) == ladder(a, b, 3, 4, k=k, m=7)


def test_each_site_alone() -> None:
    reasons = set()
    for offset in conditions(ladder.__code__):
        try:
            g = rewritten(ladder, Plan({offset: LiftBranch()}))
        except Refused as refused:
            reasons.add(refused.reason.code)
            continue
        for a in range(-4, 9):
            assert g(a, 2, 3) == ladder(a, 2, 3)
    # Where comprehensions are compiled in line, they clear and restore a local.
    assert reasons <= {"loop-exit", "arm-deletes-local"}


def test_same_face() -> None:
    g, old = rewritten(ladder), ladder
    new = g.__code__
    assert inspect.signature(g) == inspect.signature(old)
    assert (new.co_flags, new.co_name, new.co_qualname, new.co_filename, new.co_firstlineno) == (
        old.__code__.co_flags,
        old.__code__.co_name,
        old.__code__.co_qualname,
        old.__code__.co_filename,
        old.__code__.co_firstlineno,
    )
    assert g.__doc__ == "Every form at once."


def test_same_bytes_for_the_same_plan() -> None:
    plan = widest_plan(ladder.__code__)
    assert len(plan) > 5
    one, two = rewrite(ladder.__code__, plan), rewrite(ladder.__code__, plan)
    assert [c.co_code for c, _ in one.origins] == [c.co_code for c, _ in two.origins]
    assert [origins for _, origins in one.origins] == [origins for _, origins in two.origins]


def test_condition_is_asked_once_and_in_order() -> None:
    log: list[str] = []

    class Asked:
        def __init__(self, name: str, value: bool) -> None:
            self.name, self.value = name, value

        def __bool__(self) -> bool:
            log.append(self.name)
            return self.value

    def f(a: Asked, b: Asked, c: Asked) -> str:
        if (a and b) or not c:
            return "yes"
        return "no"

    g = rewritten(f)
    for bits in range(8):
        args = [Asked(name, bool(bits >> i & 1)) for i, name in enumerate("abc")]
        log.clear()
        expected, asked = f(*args), list(log)
        log.clear()
        assert (g(*args), log) == (expected, asked)


def test_free_and_cell_variables() -> None:
    def make(scale: int) -> Callable[[int], list[int]]:
        def f(x: int) -> list[int]:
            factor = x + 1
            get = lambda: factor * scale  # noqa: E731
            if x > 2:
                y = get() + scale
            else:
                y = factor
            return [y, get()]

        return f

    f = make(7)
    g = rewritten(f)
    assert [g(x) for x in range(5)] == [f(x) for x in range(5)]


def test_traceback_shows_the_users_line() -> None:
    def f(x: int) -> float:
        if x < 5:
            y = 1 / x
        else:
            y = 0.0
        return y

    with pytest.raises(ZeroDivisionError) as original:
        f(0)
    with pytest.raises(ZeroDivisionError) as ours:
        rewritten(f)(0)
    last = traceback.extract_tb(original.tb)[-1]
    assert traceback.extract_tb(ours.tb)[-1][:3] == last[:3]


def refusal(function: Any) -> str:
    with pytest.raises(Refused) as caught:
        rewritten(function, Plan(dict.fromkeys(conditions(function.__code__), LiftBranch())))
    return caught.value.reason.code


def test_refusals() -> None:
    def raises(x: int) -> int:
        if x:
            raise ValueError
        else:
            raise TypeError

    def leaves_loop(x: int) -> int:
        for i in range(x):
            if i == 3:
                break
        return i

    def unbound(x: int) -> int:
        if x:
            y = 1
        return y

    def inspects(x: int) -> int:
        if x:
            x += len(locals())
        return x

    def opens_block(x: int) -> int:
        if x:
            with open(str(x)) as f:
                x = len(f.read())
        return x

    def deletes(x: int, y: int) -> int:
        if x:
            del y
        return x

    def imports(x: int) -> float:
        if x:
            import math

            x = math.floor(x)
        return x

    def yields(x: int) -> Any:
        if x:
            yield x

    found = {
        f.__name__: refusal(f)
        for f in (raises, leaves_loop, unbound, inspects, opens_block, deletes, imports, yields)
    }
    assert found == {
        "raises": "arm-raises",
        "leaves_loop": "loop-exit",
        "unbound": "unbound-in-one-arm",
        "inspects": "arm-inspects-frame",
        "opens_block": "exception-region",
        "deletes": "arm-deletes-local",
        "imports": "arm-imports",
        "yields": "arm-yields",
    }


@pytest.mark.skipif(VERSION < (3, 12), reason="comprehensions are functions of their own")
def test_arms_that_consume_what_a_handler_counts_on() -> None:
    """A handler of a comprehension finds the list and the iterator on the stack."""

    def filtered(x: list[int], total: Callable[[list[int]], int]) -> int:
        return total([y * 2 for y in x if y] + [1])

    assert refusal(filtered) == "exception-region"
    assert rewritten(filtered, Plan())([0, 2], sum) == 5


def test_growth_is_limited() -> None:
    test = "    if x > {0}:\n        y = x\n        if y > {0}.5:\n            return {0}"
    tests = "\n".join(test.format(i) for i in range(12))
    namespace: dict[str, Any] = {}
    exec(f"def f(x):\n{tests}\n    return x", namespace)
    assert refusal(namespace["f"]) == "code-growth"


def test_module_code_is_refused() -> None:
    code = compile("if x:\n    y = 1\n", "<module>", "exec")
    with pytest.raises(Refused, match="not-optimized-code"):
        rewrite(code, Plan(dict.fromkeys(conditions(code), LiftBranch())))


def test_origins_point_into_the_original() -> None:
    offsets = {op.offset for op in decode(ladder.__code__).ops}
    result = rewrite(ladder.__code__, widest_plan(ladder.__code__))
    for code, origins in result.origins:
        assert set(origins) <= {op.offset for op in decode(code).ops}
        assert set(origins.values()) <= offsets


def test_pending_call_on_the_stack_is_refused() -> None:
    label = Label()
    code = Bytecode(
        [
            Instr("RESUME", 0),
            Instr("PUSH_NULL"),
            Instr("LOAD_FAST", "x"),
            Instr(next(op.name for op in decode(ladder.__code__).ops if is_condition(op)), label),
            Instr("POP_TOP"),
            Instr("LOAD_CONST", 1),
            Instr("RETURN_VALUE"),
            label,
            Instr("POP_TOP"),
            Instr("LOAD_CONST", 2),
            Instr("RETURN_VALUE"),
        ]
    )
    code.argnames, code.argcount, code.flags = ["x"], 1, ladder.__code__.co_flags & 0x3
    built = code.to_code()
    with pytest.raises(Refused, match="stack-live-in"):
        rewrite(built, Plan(dict.fromkeys(conditions(built), LiftBranch())))
