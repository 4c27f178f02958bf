"""The functions of one rewrite: labels, cells, growth, and what says that one of them is an arm."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import pytest
from bytecode.instr import CellVar, FreeVar

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.header import Header
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import rewrite, widest_plan
from graphmend_bc.rewriting.lifting import scope
from graphmend_bc.rewriting.lifting.scope import FunctionWriter, Scope
from graphmend_bc.rewriting.origin import origin_of
from graphmend_bc.rewriting.plan import Plan


def closing(x: Any) -> Callable[[], Any]:
    y = 1
    if x > 0:
        y = x
    return lambda: y


def branching(x: Any) -> Any:
    if x > 0:
        x = x * 2
    else:
        x = x - 1
    return x


def parts_of(code: CodeType) -> list[CodeType]:
    found = [code]
    for part in found:
        found += [const for const in part.co_consts if isinstance(const, CodeType)]
    return found


def test_where_a_function_ends_has_one_label() -> None:
    arm = Scope(entry=2, stop=5)
    assert arm.label(5) is arm.leave
    assert arm.label(3) is arm.label(3) is not arm.label(4)


def test_a_cell_is_free_in_an_arm() -> None:
    writer = FunctionWriter(graph_of(closing.__code__), Plan())
    whole, arm = Scope(0), Scope(2, 5)
    assert writer.scoped(whole, CellVar("y")) == CellVar("y")
    assert writer.scoped(arm, CellVar("y")) == FreeVar("y")
    assert writer.scoped(arm, "y") == "y"
    assert writer.variable("y") == CellVar("y")
    assert writer.variable("z") == FreeVar("z")


def test_arms_say_that_they_are() -> None:
    code = branching.__code__
    written = rewrite(code, widest_plan(code)).code
    whole, *arms = (origin_of(part) for part in parts_of(written))
    assert whole is not None
    assert not whole.is_arm
    assert [arm.is_arm for arm in arms if arm is not None] == [True, True]
    again = FunctionType(written, globals())
    assert [again(n) for n in (2, -2)] == [branching(n) for n in (2, -2)]


def test_growth_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope, "GROWTH_LIMIT", 3)
    writer = FunctionWriter(graph_of(closing.__code__), Plan())
    with pytest.raises(Refused) as found:
        writer.assembled(Header.of(closing.__code__), [None] * 4)  # type: ignore[list-item]
    assert found.value.reason.code == "code-growth"
