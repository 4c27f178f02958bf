"""Programs whose conditions flip, whose state changes in each call, or that compile long.

What decides how they go is the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import models
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

_NUMBERS_OF_ONE_TYPE = """
def f(x):
    a = 1.5 if x[0] > 0 else 2.5
    b = 3 if x[1] > 0 else 5
    c = 7 if x[2] > 0 else 9
    return (x * a + 1) * b - c
"""

_METER = """
class Meter:
    def __init__(self):
        self.values, self.n, self.total = [], 0, 0.0

m = Meter()

def f(x):
    loss = (x * x).mean()
    m.values.append(loss.item())
    m.n += 1
    m.total += loss.item()
    return x * 2
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

_KINDS = """
def f(x):
    if x[0] > 0:
        x, rows = x * 2, [1]
    else:
        x, rows = x - 1, [2, 3]
    name = "up" if x[1] > 0 else None
    pair = (x, 1) if x[2] > 0 else (2, x.sum())
    return x, rows, name, pair
"""

_SAMPLER = """
steps = torch.tensor([40, 30, 20, 10, 0])
layer = torch.nn.Linear(4, 4)

def f(x):
    for t in steps:
        x = x - layer(x) * t / 100
        if t > 0:
            x = x + torch.randn(4)
    return x
"""

_DETECTIONS = """
def f(x):
    boxes = x.abs().reshape(1, 4).expand(5, 4)
    kept = boxes[x[0].expand(5) > 0]
    if kept.numel() == 0:
        return boxes.new_zeros((0, 4))
    return kept[(kept[:, 2] - kept[:, 0]).argsort()]
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


_ALTERNATING = """
def f(x):
    m = x > 0
    if m.any():
        v = x[m]
        s = v.mean().item() if v.numel() else 0.0
        return x * s
    return x - 1
"""

_GROWING = """
seen = []

def f(x):
    seen.append(x.sum().item())
    return x * len(seen)
"""

_SIXTY_SKIPPED = """
def f(x):
    total = x.new_zeros(())
    for i in range(60):
        if x[i] > 0:
            k = 2
        else:
            k = 3
        total = total + k
    return total
"""

_THREE_HUNDRED = """
import io
out = io.StringIO()

def f(x):
    for i in range(150):
        x = (x * 1.01).sin()
    print(float(x.sum()), file=out)
    for i in range(150):
        x = (x + 1).cos()
    return x
"""


@dataclass(frozen=True, slots=True)
class Life:
    """A program and how often it is called.

    Attributes:
        build: makes the function and the arguments of so many calls.
        calls: the number.
    """

    build: Callable[[int], tuple[Any, Calls]]
    calls: int = 300


def _program(source: str, calls: Callable[[int], Calls], count: int = 300) -> Life:
    return Life(lambda number: (defined(source)["f"], calls(number)), count)


def _repeated(name: str, count: int = 300) -> Life:
    """A program of `site_programs`, whose calls are made again and again."""

    def build(number: int) -> tuple[Any, Calls]:
        function, calls = SITES[name]()
        return function, [calls[i % len(calls)] for i in range(number)]

    return Life(build, count)


def _model(name: str, calls: int) -> Life:
    """A model of transformers."""

    def build(number: int) -> tuple[Any, Calls]:
        model = models.build(name).model
        tokens = torch.arange(24).reshape(2, 12)
        return (lambda tokens: model(tokens, use_cache=False)[0]), [(tokens,)] * number

    return Life(build, calls)


PROGRAMS: dict[str, Life] = {
    "early exit": _program(_EARLY_EXIT, lambda count: [(torch.ones(8, 64),)] * count),
    "two numbers": _program(_TWO_NUMBERS, _signs),
    "three numbers": _program(_THREE_NUMBERS, _signs, 1500),
    "three numbers of one type each": _program(_NUMBERS_OF_ONE_TYPE, _signs),
    "meter": _program(_METER, _vectors, 50),
    "metric": _program(_METRIC, _vectors),
    "arms of three kinds": _program(_KINDS, _vectors),
    "last round differs": _program(_SAMPLER, _vectors, 100),
    "boxes or none": _program(_DETECTIONS, _signs),
    "layer drop": _program(_LAYER_DROP, _vectors),
    "mask that alternates": _program(_ALTERNATING, _signs, 40),
    "list that grows": _program(_GROWING, _vectors, 60),
    "60 conditions in a skipped loop": _program(
        _SIXTY_SKIPPED,
        lambda count: [(torch.sin(torch.arange(64.0) + i),) for i in range(count)],
        20,
    ),
    "300 operators, one print": _program(_THREE_HUNDRED, _vectors, 50),
    "cursor": _repeated("cursor", 40),
    **{
        name: _repeated(name)
        for name in (
            "k-means to do",
            "selection",
            "paste masks",
            "60 rounds, tensors",
            "1000 operators",
        )
    },
    "BERT, no break": _model("BERT", 1),
    "LLaMA, no break": _model("LLaMA", 1),
    "Mixtral": _model("Mixtral", 3),
}
"""By name, what makes the function and how often it is called."""
