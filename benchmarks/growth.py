"""How trace time grows with the sites of a function and with the layers of a model.

    python benchmarks/growth.py [--sizes 3] [--repeats 2] [--json PATH]

Processor seconds of the first call, backend "eager": stock, mended, and `twin`, with `torch.where`
written by hand. The arms take turns; the first round is discarded.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measuring import ARMS, Sample, cpu_seconds, progress, start_arm, write_json
from twins import forms

SITES = (1, 10, 30, 100)
LAYERS = (2, 6, 24, 96)
WIDTH = 64


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
    return (forms.LayerLoopTwin if is_twin else forms.LayerLoop)(WIDTH, count)


def measure_growth(repeats: int, sizes: int) -> list[Sample]:
    """Trace time of each size in every arm.

    Args:
        repeats: rounds to keep; one more is discarded.
        sizes: how many of the sizes to measure, from the smallest.
    """
    cases = [(f"{n} sites", with_sites, n, torch.ones(8)) for n in SITES[:sizes]]
    cases += [(f"{n} layers", with_layers, n, torch.ones(8, WIDTH)) for n in LAYERS[:sizes]]
    samples = []
    for done, (name, make, count, x) in enumerate(cases):
        progress(done, len(cases), name)
        for kept in range(repeats + 1):
            for arm in ARMS:
                seconds = _trace(make(count, arm == "twin"), arm, x)
                if kept:
                    samples.append(Sample(name, "trace", arm, seconds))
    progress(len(cases), len(cases), "")
    return samples


def _trace(function: Callable[..., Any], arm: str, x: torch.Tensor) -> float:
    start_arm(arm)
    with torch.no_grad():
        start = cpu_seconds()
        torch.compile(function, backend="eager")(x)
        return cpu_seconds() - start


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, default=3, help="how many sizes (3 of 4)")
    parser.add_argument("--repeats", type=int, default=2, help="rounds to keep (2)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    args = parser.parse_args(argv)
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    samples = measure_growth(args.repeats, args.sizes)
    if args.json:
        write_json(args.json, samples)


if __name__ == "__main__":
    main()
