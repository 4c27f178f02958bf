"""How trace time grows with the sites of a function and with the layers of a model.

    python benchmarks/growth.py [--sizes 3] [--repeats 2] [--json PATH]
    python benchmarks/growth.py --functions 100000
    python benchmarks/growth.py --recompilations 10000

Processor seconds of the first call, backend "eager": stock, mended, and `twin`, with `torch.where`
written by hand. The arms take turns; the first round is discarded.

With `--functions` so many generated functions are mended, called and dropped, with
`--recompilations` one is compiled again so often. After each tenth it is told how many objects of
the library are alive, and how many bytes the process has in memory.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
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


def count_objects(functions: int, recompilations: int) -> None:
    """Tell after each tenth of the work what is left of it."""
    start_arm("mended")
    compiled = torch.compile(with_sites(2, is_twin=False), backend="eager")
    total = functions or recompilations
    print("done  objects  code  MiB")
    for done in range(1, total + 1):
        if functions:
            compiled = torch.compile(with_sites(1 + done % 3, is_twin=False), backend="eager")
        compiled(torch.ones(2 + done % 7))
        if done % 7 == 0 or done == total:
            torch._dynamo.reset()
        if done % max(1, total // 10) == 0:
            objects, code = objects_alive()
            print(f"{done}  {objects}  {code}  {resident() // 2**20}", flush=True)


def objects_alive() -> tuple[int, int]:
    """Objects of the library's classes, and code objects that functions have."""
    gc.collect()
    found = gc.get_objects()
    ours = sum(str(type(one).__module__).startswith("graphmend_bc") for one in found)
    return ours, len({one.__code__ for one in found if type(one) is FunctionType})


def resident() -> int:
    """Bytes that the process has in memory."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, default=3, help="how many sizes (3 of 4)")
    parser.add_argument("--repeats", type=int, default=2, help="rounds to keep (2)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="mend N functions")
    parser.add_argument("--recompilations", type=int, default=0, metavar="N", help="or one N times")
    args = parser.parse_args(argv)
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if args.functions or args.recompilations:
        count_objects(args.functions, args.recompilations)
        return
    samples = measure_growth(args.repeats, args.sizes)
    if args.json:
        write_json(args.json, samples)


if __name__ == "__main__":
    main()
