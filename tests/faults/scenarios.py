"""Little programs that between them come by most of the library."""

from __future__ import annotations

from dataclasses import replace
from tempfile import mkdtemp
from typing import Final

import torch

from tests.faults.planted import Scenario

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
CALLS = (UP, DOWN, UP, DOWN)

CHOICE = Scenario(
    "choice",
    """
    def f(x):
        y = x.cos()
        if x.sum() > 0:
            y = y * 2
        return y + 1
    """,
    CALLS,
)
SPECULATION = Scenario(
    "speculation",
    """
    seen = []
    def f(x):
        x.add_(1)
        y = x * 2
        if y.sum() > 0:
            seen.append(1)
            print("up", y)
        if torch.isnan(y).any():
            raise ValueError("nan")
        return y, len(seen)
    """,
    (*CALLS, torch.full((3,), torch.nan), UP),
)
EFFECTS = Scenario(
    "effects",
    """
    class Meter:
        def __init__(self):
            self.n = 0
            self.total = []
    meter = Meter()
    log = logging.getLogger("program")
    def f(x):
        meter.n += 1
        meter.total.append(x.sum().item())
        if x.max() > 2:
            print("large", x.max().item())
        log.warning("mean %s", x.mean())
        return x * 2
    """,
    CALLS,
)
HOISTED = Scenario(
    "hoisted",
    """
    import numpy
    def f(x):
        for i in range((x > 0).sum()):
            x = x + i
        return x[x > 1], x * numpy.random.rand()
    """,
    CALLS,
)
LOOP = Scenario(
    "loop",
    """
    def f(x):
        while x.abs().sum() > 1:
            x = x / 2
        return x
    """,
    CALLS,
)
BROKEN = Scenario(
    "broken",
    """
    import time
    def helper(x):
        time.time()
        return x + 1 if x.sum() > 0 else x - 1
    def f(x):
        y = helper(x)
        if y.sum() > 0:
            y = y * 3
        time.time()
        return y, int(y.max())
    """,
    CALLS,
)
KEPT = Scenario(
    "kept on disk",
    """
    def f(x):
        n = []
        if x.sum() > 0:
            n.append(1)
        return x * (len(n) + 1)
    """,
    CALLS,
    {"disk_cache": True},
)
WRITTEN = replace(KEPT, name="written to disk", settings={**KEPT.settings, "cache_dir": mkdtemp})
COMPARED = Scenario(
    "compared",
    """
    def f(x):
        y = x.sin()
        if y.sum() > 0:
            y = y * 2
        print("sum", y.sum())
        return y
    """,
    CALLS,
    {"verify": 1},
)
ROLLED_BACK = Scenario(
    "rolled back",
    """
    import contextvars, random, time
    scale = contextvars.ContextVar("scale", default=2)
    def f(x, y, at):
        x.add_(y)
        y.mul_(scale.get())
        z = x * y
        if z.sum() > 0:
            time.time()
        if random.random() < 0.5:
            z = z + random.random()
        w = x[at] * 2
        if w.max() > 100:
            raise OverflowError("large")
        return x, z, w
    """,
    (
        (UP, DOWN, torch.tensor([0, 1, 2])),
        (DOWN, UP, torch.tensor([0, 1, 2])),
        (UP, DOWN, torch.tensor([0, 1, 7])),
        (UP * 90, UP, torch.tensor([0, 1, 2])),
    ),
)

SCENARIOS: Final = (
    *(CHOICE, SPECULATION, EFFECTS, HOISTED, LOOP, BROKEN, KEPT, WRITTEN, COMPARED),
    ROLLED_BACK,
)
