"""Arms that count: an integer that was selected before is computed with, and selected again."""

from __future__ import annotations

import pytest

from tests.oracle import agrees, check
from tests.symbols.test_selected_numbers import signs

COUNTS = {
    "up": ("n = 0", "n += 1", "(y, n)"),
    "down": ("n = 5", "n -= 1", "y * n"),
    "with weights": ("n = 1", "n = n * 3 + i", "(y + n, [n])"),
    "the last index": ("n = -1", "n = i", "y + n"),
    "the first index": ("n = 9", "n = min(n, i)", "y + n"),
    "two at once": ("n, m = 0, 7", "n, m = n + 1, m - n", "(y * n, m)"),
    "negated": ("n = 1", "n = -n", "y * n"),
    "and is a text": ("n = 0", "n += 1", "(y, f'{n} of 3')"),
}


def program(begin: str, step: str, result: str, rounds: int = 3) -> str:
    return f"""
def f(x):
    y = x * 2
    {begin}
    for i in range({rounds}):
        if x[i] > 0:
            {step}
    return {result}
"""


@pytest.mark.parametrize(("begin", "step", "result"), COUNTS.values(), ids=COUNTS)
def test_counts(begin: str, step: str, result: str) -> None:
    agrees(program(begin, step, result), signs(16, 4))


@pytest.mark.parametrize("name", ["up", "down", "with weights", "the last index", "negated"])
def test_is_one_graph_for_all_values(name: str) -> None:
    check(
        program(*COUNTS[name]),
        signs(24, 4),
        mends={"forward": None, "both ways": "where@6"},
        declines={"forward": None, "both ways": ""},
        breaks=None,
        orders=1,
    )


LARGE = {
    "grows": ("n = 3", "n = n * 100000 + 1", "(y, n)"),
    "is squared": ("n = 50000", "n = n * n", "(y, n)"),
    "of another type": ("n = 1", "n = n / 2", "(y, n)"),
    "of tensors": ("n = 1", "n = n + x[i].item()", "(y, n)"),
    "of a size": ("n = 0", "n += x.shape[0]", "(y, n)"),
    "that steers": ("n = 0", "n += 1", "(y, [0] * n, n > 1 and 'many')"),
    "of truth values": ("n = False", "n = not n", "(y, n)"),
}


@pytest.mark.parametrize(("begin", "step", "result"), LARGE.values(), ids=LARGE)
def test_what_may_not_be_selected_is_exact_too(begin: str, step: str, result: str) -> None:
    agrees(program(begin, step, result, rounds=4), signs(12, 4))


def test_counter_of_an_object() -> None:
    source = """
class Meter:
    n = 0

meter = Meter()

def f(x):
    n = meter.n
    for i in range(2):
        if x[i] > 0:
            n += 1
    meter.n = n
    return x * 2
"""
    agrees(source, signs(12, 4))
