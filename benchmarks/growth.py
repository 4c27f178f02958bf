"""How trace time grows with the sites of a function and with the layers of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from measuring import ARMS, Sample, cpu_seconds, progress, start_arm
from twins import small

SITES = (1, 10, 100)
LAYERS = (1, 6, 24, 96)


def with_sites(count: int, is_twin: bool) -> Callable[..., Any]:
    """A function with that many branches one after another, or its twin without any."""
    lines = ["def f(x):"]
    for number in range(count):
        lines.append("    x = torch.sin(x)")
        if is_twin:
            lines.append(f"    x = torch.where(x.sum() > {number}, x * 2, x)")
        else:
            lines += [f"    if x.sum() > {number}:", "        x = x * 2"]
    lines.append("    return x + 1")
    namespace: dict[str, Any] = {"torch": torch}
    exec("\n".join(lines), namespace)
    function: Callable[..., Any] = namespace["f"]
    return function


def with_layers(count: int, is_twin: bool) -> Callable[..., Any]:
    """An MLP each of whose layers passes the same branch."""
    torch.manual_seed(0)
    model = small.ClampMLPTwin(count) if is_twin else small.ClampMLP(count)
    return model


def measure_growth(repeats: int, sizes: int) -> list[Sample]:
    """Trace time, backend "eager", of each size in every arm, interleaved.

    Args:
        repeats: rounds to keep; one more is discarded.
        sizes: how many of the sizes to measure, from the smallest.
    """
    cases = [(f"{n} site(s)", with_sites, n, torch.ones(8)) for n in SITES[:sizes]]
    cases += [(f"{n} layer(s)", with_layers, n, torch.ones(8, small.WIDTH)) for n in LAYERS[:sizes]]
    samples = []
    for done, (name, make, count, x) in enumerate(cases, 1):
        progress(done, len(cases), f"growth: {name}")
        for kept in range(repeats + 1):
            for arm in ARMS:
                seconds = _trace(make(count, arm == "twin"), arm, x)
                if kept:
                    samples.append(Sample(name, "trace", arm, seconds))
    return samples


def _trace(function: Callable[..., Any], arm: str, x: torch.Tensor) -> float:
    start_arm(arm)
    with torch.no_grad():
        start = cpu_seconds()
        torch.compile(function, backend="eager")(x)
        return cpu_seconds() - start
