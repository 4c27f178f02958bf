"""What a function adds to and asks nothing else of, found in its bytecode."""

from __future__ import annotations

import dis
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest

from graphmend_bc.rewriting.accumulations import accumulations

HISTORY: list[Any] = []
COUNTS = {"a": 0}


def attributes(m: Any, v: Any) -> None:
    m.n += 1
    m.total -= v
    m.values.append(v)


def items(m: Any) -> None:
    m.counts["a"] += 1
    COUNTS["a"] *= 2


def variables(rows: Any, v: Any) -> None:
    HISTORY.append(v)
    rows.appendleft(v)


def closed_over(rows: Any) -> Callable[[Any], None]:
    def add(v: Any) -> None:
        rows.append(v)

    return add


def twice(m: Any) -> None:
    m.n += 1
    m.n += 2
    m.values.append(1)
    m.values.append(2)


def loaded_as_well(m: Any) -> Any:
    m.n += 1
    m.values.append(1)
    m.counts["a"] += 1
    return m.n, m.values, m.counts


def result_is_used(m: Any) -> Any:
    return m.values.append(1)


def other_operators(m: Any) -> None:
    m.n /= 2
    m.n **= 2
    m.n = m.n // 2


def written_out(m: Any, v: Any) -> None:
    m.n = m.n + v
    m.total = m.total * 0.5


def not_written_back(m: Any, other: Any, v: Any) -> None:
    other.n = m.n + v
    m.total = m.n + v
    m.sum = v + m.sum
    m.first = (m := other).first + v
    m.last = m.last + (m := other).sum


def nothing_to_add(m: Any) -> None:
    m.values.pop()
    m.values.extend([1])
    n = 0
    n += 1


WANTED = {
    attributes: ["LOAD_ATTR n", "LOAD_ATTR total", "LOAD append"],
    written_out: ["LOAD_ATTR n", "LOAD_ATTR total"],
    not_written_back: [],
    items: ["SUBSCRIPT", "STORE_SUBSCR", "SUBSCRIPT", "STORE_SUBSCR"],
    variables: ["LOAD append", "LOAD appendleft"],
    closed_over([]): ["LOAD append"],
    twice: ["LOAD_ATTR n", "LOAD_ATTR n", "LOAD append", "LOAD append"],
    loaded_as_well: [],
    result_is_used: [],
    other_operators: [],
    nothing_to_add: [],
}


def shown(instruction: dis.Instruction) -> str:
    """What the versions of CPython have in common."""
    name = str(instruction.argval)
    if name in ("append", "appendleft"):
        return f"LOAD {name}"
    if instruction.opname in ("BINARY_SUBSCR", "BINARY_OP"):
        return "SUBSCRIPT"
    return (
        f"{instruction.opname} {name}" if instruction.opname == "LOAD_ATTR" else instruction.opname
    )


@pytest.mark.parametrize("function", WANTED, ids=lambda function: function.__name__)
def test_accumulations(function: FunctionType) -> None:
    found = accumulations(function.__code__)
    at = [i for i in dis.get_instructions(function) if i.offset in found]
    assert [shown(i) for i in at] == WANTED[function]
    assert len(at) == len(found)
