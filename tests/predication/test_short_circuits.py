"""Conditions of several parts whose arms cannot be merged: the trace goes on with the next rule."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.oracle import agrees

CALLS = [tuple(map(torch.tensor, signs)) for signs in itertools.product((1.0, -1.0), repeat=3)]

CONDITIONS = (
    "a > 0 or b > 0",
    "a > 0 and b > 0",
    "not (a > 0 or b > 0)",
    "not (a > 0 and b > 0)",
    "not a > 0 or b > 0",
    "a > 0 and not b > 0",
    "a > 0 or b > 0 or c > 0",
    "a > 0 and b > 0 and c > 0",
    "a > 0 or b > 0 and c > 0",
    "(a > 0 or b > 0) and c > 0",
    "a > 0 and (b > 0 or c > 0)",
    "(a > 0 and b > 0) or c > 0",
    "not (a > 0 or b > 0) and c > 0",
    "(a > 0 if c > 0 else b > 0)",
    "bool(a > 0) or (b > 0).item()",
    "0 < a + b < 2",
)

BODIES = {
    "shapes": "    if {0}:\n        return torch.stack([a, b]) * 2\n    return a - 1",
    "joined": "    y = a\n    if {0}:\n        y = torch.stack([a, b])\n    else:\n"
    "        y = b + 1\n    return y * 2",
    "types": "    if {0}:\n        return [a]\n    return b, 1",
    "raises": "    if {0}:\n        raise ValueError('no')\n    return a + b",
    "prints": "    if {0}:\n        print('yes', a)\n        return torch.stack([a, b])\n    return a",
    "both ways": "    n = 'up' if {0} else None\n    return a * 2, n, torch.stack([a, c]) if {0} else c",
    "twice": "    if {0}:\n        a = torch.stack([a, b])\n    if b > 0 or c > 0:\n"
    "        a = torch.cat([a.reshape(-1), c.reshape(1)])\n    return a",
    "loop": "    for part in (a, b):\n        if {0}:\n            return part, 1\n    return part",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
@pytest.mark.parametrize("condition", CONDITIONS)
def test_whatever_is_assumed_first(condition: str, body: str) -> None:
    source = f"def f(a, b, c):\n{body.format(condition)}\n"
    for calls in (CALLS, CALLS[3:] + CALLS[:3], CALLS[::-1], CALLS[5:] + CALLS[:5]):
        agrees(source, calls, orders=1)


@pytest.mark.parametrize("condition", ["a > 0 or b > 0", "not (a > 0 and b > 0) or c > 0"])
def test_arms_of_other_shapes(condition: str) -> None:
    source = f"def f(a, b, c):\n{BODIES['shapes'].format(condition)}\n"
    agrees(source, CALLS)
    agrees(source, CALLS[::-1], backend="aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("body", ["shapes", "both ways", "types"])
@pytest.mark.parametrize("condition", CONDITIONS[:15])
def test_some_parts_are_pythons_numbers(condition: str, body: str) -> None:
    one, minus = torch.tensor(1.0), torch.tensor(-1.0)
    values = (one, minus, 1.0, -1.0)
    first = [(one, one, one), (minus, minus, minus)]
    calls = [
        parts for parts in itertools.product(values, repeat=3) if 1.0 in parts or -1.0 in parts
    ]
    made = BODIES[body].replace("a, b", "T(a), T(b)").replace("a, c", "T(a), T(c)")
    source = f"T = torch.as_tensor\ndef f(a, b, c):\n{made.format(condition)}\n"
    source = source.replace("b > 0).item()", "torch.as_tensor(b) > 0).item()")
    for start in range(0, len(calls), 8):
        agrees(source, [*first, *calls[start : start + 8]], orders=1)
