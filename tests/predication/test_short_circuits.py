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


LEAVES = {
    "prints": "print('asked', x.sum())",
    "logs": "log.warning('asked %s', x.sum())",
    "appends": "met.append(x.sum())",
    "counts": "global count; count += 1",
    "draws": "x = x + torch.rand(3)",
    "writes": "total.add_(x.sum().detach())",
    "reads": "met.append(x.sum().item())",
    "raises": "if x[0] > 4: raise ValueError('no')",
}


@pytest.mark.parametrize("ask", ["(x > {0}).any() or part(x)", "(x < {0}).all() and part(x)"])
@pytest.mark.parametrize("leaves", LEAVES.values(), ids=list(LEAVES))
def test_what_a_second_part_leaves_is_left_once(leaves: str, ask: str) -> None:
    """The arms give tensors of other shapes, so that the branch is traced by the next rule."""
    source = f"""
    log = logging.getLogger("parts")
    met, count, total = [], 0, torch.zeros(())

    def part(x):
        {leaves.replace("; ", chr(10) + "        ")}
        return x.sum() > 0

    def f(x, y):
        o = y if {ask.format(3.5)} else x
        return o, met, count
    """
    calls = [
        (torch.tensor([sign, 2.0 * sign, last]), torch.ones(2, 3))
        for sign in (1.0, -1.0, 5.0)
        for last in (3.0, 4.0)
    ]
    agrees(source, calls, orders=3)


def test_the_first_of_three_parts_is_asked_again() -> None:
    source = """
    def part(x, name):
        print(name)
        return x > 0

    def f(a, b, c):
        if part(a, "a") and part(b, "b") or part(c, "c"):
            return torch.stack([a, b])
        return c
    """
    agrees(source, CALLS, orders=3)
    agrees(source.replace(" and ", " or "), CALLS, orders=3)


@pytest.mark.parametrize("ask", ["{0} > 0 and {1}", "{0} > 0 or {1}", "{0} > 0 and not {1} or {1}"])
@pytest.mark.parametrize("body", ["shapes", "joined", "both ways"])
def test_an_object_is_asked_for_its_truth_only_where_the_part_is_reached(
    ask: str, body: str
) -> None:
    source = f"""
    class Ask:
        def __init__(self, value):
            self.value = value
        def __bool__(self):
            print("asked")
            return bool(self.value > 0)

    def f(a, b, c):
    {BODIES[body].format(ask.format("a", "Ask(b)")).replace(chr(10), chr(10) + "    ")}
    """
    agrees(source, CALLS, orders=3)
