"""What a program costs over its life: processor seconds of all calls so far, for each arm.

Each arm runs in a process of its own, and the arms take turns. The table has the first call, all
calls together, and one call at rest; the ratios are mended to stock. With matplotlib installed
`--plot` draws calls against seconds, where one sees whether and when mending pays back.

    python benchmarks/life_cost.py --json life_cost.json --plot life_cost.svg
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path

import torch
from life_programs import PROGRAMS
from measuring import Sample, grouped, progress, start_arm, write_json

ARMS = ("eager", "stock", "mended")
_AT_REST = 50
"""Calls at the end, whose median is a call at rest; half of them, where there are fewer."""


def measure(name: str, arm: str, calls: int, backend: str) -> list[float]:
    """Processor seconds up to the end of each call, in this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    function, arguments = PROGRAMS[name].build(calls)
    start_arm(arm)
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))  # what torch loads when it must
    run = function if arm == "eager" else torch.compile(function, backend=backend)
    ends = []
    start = time.process_time()
    for call in arguments:
        run(*call)
        ends.append(time.process_time() - start)
    return ends


def measured(name: str, arm: str, calls: int, backend: str) -> list[float]:
    """The same in a process of its own."""
    here = [sys.executable, str(Path(__file__).resolve()), "--calls", str(calls)]
    done = subprocess.run(
        [*here, "--backend", backend, "--only", name, arm],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    ends: list[float] = json.loads(done.stdout.splitlines()[-1])
    return ends


def of_life(name: str, arm: str, ends: list[float]) -> list[Sample]:
    """The figures of one arm's life."""
    last = ends[-min(_AT_REST, len(ends) // 2 + 1) - 1 :]
    rest = [b - a for a, b in pairwise(last)] or ends
    return [
        Sample(name, "first call", arm, ends[0]),
        Sample(name, "all calls", arm, ends[-1]),
        Sample(name, "at rest", arm, statistics.median(rest)),
    ]


def print_life(samples: list[Sample]) -> None:
    """Prints a row a program: stock's seconds, and the ratios mended to stock with their spread."""
    names = list(dict.fromkeys(sample.subject for sample in samples))
    print(
        "| program | stock: first call, all calls, at rest | mended to stock: first | all | rest |"
    )
    print("|---|---|---|---|---|")
    found = grouped(samples)
    for name in names:
        cells, stock = [], []
        for what in ("first call", "all calls", "at rest"):
            pairs = zip(found[name, what, "mended"], found[name, what, "stock"], strict=True)
            ratios = [mended / of_stock for mended, of_stock in pairs]
            cells.append(f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]")
            middle = statistics.median(found[name, what, "stock"])
            stock.append(f"{middle * 1e6:.0f} us" if what == "at rest" else f"{middle:.2f} s")
        print(f"| {name} | {', '.join(stock)} | {' | '.join(cells)} |")


def plot(lives: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Draws the last life of each arm, a panel for each program."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 3
    rows = -(-len(lives) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4 * columns, 3 * rows), squeeze=False)
    for axis in axes.flat[len(lives) :]:
        axis.axis("off")
    for axis, (name, arms) in zip(axes.flat, lives.items(), strict=False):
        for arm, ends in arms.items():
            axis.plot(range(1, len(ends) + 1), ends, label=arm)
        axis.set_title(name)
        axis.set_xlabel("calls")
        axis.set_ylabel("processor seconds")
    axes.flat[0].legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="programs; all if none")
    parser.add_argument("--calls", type=int, help="calls of each program; its own number if none")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each arm")
    parser.add_argument("--backend", default="eager", help="backend of torch.compile")
    parser.add_argument("--json", type=Path, help="file for every sample")
    parser.add_argument("--plot", type=Path, help="file for a chart; needs matplotlib")
    parser.add_argument("--only", nargs=2, metavar=("NAME", "ARM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(*options.only, options.calls, options.backend)))
        return
    if unknown := set(options.names) - PROGRAMS.keys():
        parser.error(f"no such programs: {', '.join(sorted(unknown))}")
    names = options.names or list(PROGRAMS)
    samples: list[Sample] = []
    lives: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    total = options.repeats * len(names)
    for repeat in range(options.repeats):
        for number, name in enumerate(names):
            progress(repeat * len(names) + number, total, name)
            for arm in ARMS if repeat % 2 == 0 else reversed(ARMS):
                calls = options.calls or PROGRAMS[name].calls
                lives[name][arm] = measured(name, arm, calls, options.backend)
                samples += of_life(name, arm, lives[name][arm])
    progress(total, total, "")
    print_life(samples)
    if options.json:
        write_json(options.json, samples)
    if options.plot:
        plot(lives, options.plot)


if __name__ == "__main__":
    main()
