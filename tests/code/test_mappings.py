"""Comprehensions of which each item is made of one item alone."""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any

import pytest

from graphmend_bc.code.analysis.mappings import maps_items
from graphmend_bc.code.facts import COMPREHENSIONS_ARE_CALLED
from graphmend_bc.rewriting.accumulations import accumulations

NAMES = {"real", "conjugate"}

MAPS = ("[v for v in x]", "[v.real for v in x]", "[v.conjugate() if v.real == 0 else v for v in x]")
MAPS_NOT = (
    "[v * k for v in x]",
    "[v + 1 for v in x]",
    "[v.append(1) for v in x]",
    "[print(v) for v in x]",
    "[w for v in x for w in v]",
    "[[w for w in v] for v in x]",
    "[(k := v) for v in x]",
    "[lambda: v for v in x]",
    "(v for v in x)",
    "{v for v in x}",
    "[v[0] for v in x]",
    "[v for v in x for k in [1]]",
)


def inner(expression: str) -> list[CodeType]:
    scope: dict[str, Any] = {}
    exec(f"def f(x, k):\n    return {expression}\n", scope)
    found: FunctionType = scope["f"]
    return [constant for constant in found.__code__.co_consts if isinstance(constant, CodeType)]


@pytest.mark.skipif(not COMPREHENSIONS_ARE_CALLED, reason="comprehensions are no functions")
@pytest.mark.parametrize("expression", MAPS)
def test_what_maps(expression: str) -> None:
    (code,) = inner(expression)
    assert maps_items(code, NAMES)


@pytest.mark.parametrize("expression", MAPS_NOT)
def test_what_does_not(expression: str) -> None:
    assert not any(maps_items(code, NAMES) for code in inner(expression))


JOINS = {
    "torch.cat(m.values)": 1,
    "torch.cat(m.values, dim=0)": 1,
    "cat(m.values)": 1,
    "torch.stack(m.values)": 0,
    "len(m.values)": 0,
    "torch.cat(m.values[1:])": 0,
    "m.values": 0,
    "own.append(v) or torch.cat(own)": 1,  # `m.values` alone: `own` is made here
}


@pytest.mark.parametrize("expression", JOINS)
def test_lists_that_are_joined(expression: str) -> None:
    scope: dict[str, Any] = {}
    source = f"def f(m, v):\n    own = []\n    m.values.append(v)\n    return {expression}\n"
    exec(source, scope)
    assert len(accumulations(scope["f"].__code__)) == JOINS[expression]
