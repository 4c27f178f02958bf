"""Programs whose conditions flip, whose state changes in each call, or that compile long.

What decides how they go is the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from site_programs import PROGRAMS as SITES
from site_programs import Calls, defined


def _signs(calls: int) -> Calls:
    """Vectors of random signs."""
    drawn = random.Random(1)
    return [(torch.tensor([drawn.choice((-1.0, 1.0)) for _ in range(4)]),) for _ in range(calls)]


def _vectors(calls: int) -> Calls:
    drawn = torch.Generator().manual_seed(0)
    return [(torch.randn(4, generator=drawn),) for _ in range(calls)]


_TWO_NUMBERS = """
def f(x):
    a = 1.5 if x[0] > 0 else 2
    b = 3 if x[1] > 0 else 0.5
    return (x * a + 1) * b
"""

_THREE_NUMBERS = """
def f(x):
    a = 1.5 if x[0] > 0 else 2
    b = 3 if x[1] > 0 else 0.5
    c = 7 if x[2] > 0 else 0.25
    return (x * a + 1) * b - c
"""

_METRIC = """
class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self._update_count = 0
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x):
        self._update_count += 1
        if x.isnan().any():
            raise ValueError("nan")
        self.total = self.total + x.sum()
        return self.total / self._update_count

f = Metric()
"""

_LAYER_DROP = """
layers = [torch.nn.Linear(4, 4) for _ in range(6)]

def f(x):
    for layer in layers:
        if torch.rand([]) < 0.3:
            continue
        x = x + layer(x).relu()
    return x
"""

_EARLY_EXIT = """
layers = [torch.nn.Linear(64, 64) for _ in range(8)]

def f(x):
    for layer in layers:
        x = layer(x).relu()
        if x.max() > 1e6:
            return x
        if torch.isinf(x).any():
            x = x.clamp(max=1e4)
    return x
"""


def _program(source: str, calls: Callable[[int], Calls]) -> Callable[[int], tuple[Any, Calls]]:
    return lambda count: (defined(source)["f"], calls(count))


def _repeated(name: str) -> Callable[[int], tuple[Any, Calls]]:
    """A program of `site_programs`, whose calls are made again and again."""

    def build(count: int) -> tuple[Any, Calls]:
        function, calls = SITES[name]()
        return function, [calls[i % len(calls)] for i in range(count)]

    return build


PROGRAMS: dict[str, Callable[[int], tuple[Any, Calls]]] = {
    "early exit": _program(_EARLY_EXIT, lambda count: [(torch.ones(8, 64),)] * count),
    "two numbers": _program(_TWO_NUMBERS, _signs),
    "three numbers": _program(_THREE_NUMBERS, _signs),
    "metric": _program(_METRIC, _vectors),
    "layer drop": _program(_LAYER_DROP, _vectors),
    **{
        name: _repeated(name)
        for name in (
            "cursor",
            "k-means to do",
            "selection",
            "paste masks",
            "60 rounds, tensors",
            "1000 operators",
        )
    },
}
"""By name, what makes the function and so many calls."""
