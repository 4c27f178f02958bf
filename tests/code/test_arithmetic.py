"""Functions that only compute with numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import pytest

from graphmend_bc.code.analysis.arithmetic import is_arithmetic

LIMIT = 3
ROWS = [1.0]


def closed_over(value: Any) -> Callable[[int], Any]:
    return lambda step: step * value


def warmed(step: int, *, warm: int, least: float = 0.0) -> float:
    if step < warm:
        return float(step) / float(max(1, warm))
    progress = (step - warm) / LIMIT
    return max(least, 0.5 * (1.0 + math.cos(math.pi * progress)), pow(0.5, step), -1)


@pytest.mark.parametrize(
    "function",
    [
        lambda step: 0.9**step,
        lambda step: min(step, LIMIT) + (1 if step > 2 and not step == 4 else math.sqrt(step)),
        closed_over(2.5),
        warmed,
        functools.partial(warmed, warm=2),
        functools.partial(functools.partial(warmed, warm=2), least=0.5),
    ],
)
def test_only_computes(function: object) -> None:
    assert is_arithmetic(function)


@pytest.mark.parametrize(
    "function",
    [
        print,
        math.cos,
        None,
        lambda step: ROWS[0],
        lambda step: ROWS.append(step) or 1,
        lambda step: print(step) or 1,
        lambda step: warmed(step, warm=2),
        lambda step: len(ROWS),
        lambda step: step.real,
        lambda step: [step][0],
        lambda step: (yield step),
        lambda step, rows=ROWS: 1,
        lambda step: math.__dict__,
        lambda step: f"{step}",
        closed_over(ROWS),
        functools.partial(warmed, warm=ROWS),
        type("Own", (), {"__call__": lambda self, step: 1.0})(),
    ],
)
def test_does_more(function: object) -> None:
    assert not is_arithmetic(function)
