"""What a program costs over its life: processor seconds of all calls so far, for each arm.

    python benchmarks/life_cost.py [NAME ...] [--repeats 3] [--json PATH] [--lives PATH]

Each arm runs in a process of its own, and the arms take turns. Measures:

    first call, all calls   seconds
    at rest                 seconds of a call, median of the last ones
    compilations            graphs compiled in all calls
    late compilations       graphs compiled after the third call
    failed checks           calls whose speculation was wrong
    at rest, Inductor       as at rest, where the graphs are compiled by Inductor

`--lives` is a file for the seconds after each call, from which `pictures.py` draws calls against
seconds: there one sees whether and when mending pays back.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import torch
from life_programs import PROGRAMS
from measuring import Sample, progress, start_arm, write_json
from torch._dynamo.utils import counters

import graphmend_bc as gm

ARMS = ("eager", "stock", "mended")
_AT_REST = 50
"""Calls at the end, whose median is a call at rest; half of them, where there are fewer."""


@dataclass(frozen=True, slots=True)
class Lived:
    """A life of one arm.

    Attributes:
        ends: processor seconds up to the end of each call.
        graphs: graphs compiled until then.
        failed: calls whose check failed.
    """

    ends: list[float]
    graphs: list[int]
    failed: int


def measure(name: str, arm: str, calls: int, backend: str) -> Lived:
    """One life, in this process."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    function, arguments = PROGRAMS[name].build(calls)
    start_arm(arm)
    torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))  # what torch loads when it must
    run = function if arm == "eager" else torch.compile(function, backend=backend)
    counters.clear()
    ends, graphs = [], []
    start = time.process_time()
    for call in arguments:
        run(*call)
        ends.append(time.process_time() - start)
        graphs.append(counters["stats"]["unique_graphs"])
    return Lived(ends, graphs, gm.report().speculated.failed if arm == "mended" else 0)


def measured(name: str, arm: str, calls: int, backend: str) -> Lived:
    """The same in a process of its own."""
    here = [sys.executable, str(Path(__file__).resolve()), "--calls", str(calls)]
    done = subprocess.run(
        [*here, "--backend", backend, "--only", name, arm],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return Lived(**json.loads(done.stdout.splitlines()[-1]))


def of_life(name: str, arm: str, life: Lived) -> list[Sample]:
    """The figures of one arm's life."""
    ends, graphs = life.ends, life.graphs
    return [
        Sample(name, "first call", arm, ends[0]),
        Sample(name, "all calls", arm, ends[-1]),
        Sample(name, "at rest", arm, _at_rest(life)),
        Sample(name, "compilations", arm, graphs[-1]),
        Sample(name, "late compilations", arm, graphs[-1] - graphs[:3][-1]),
        Sample(name, "failed checks", arm, life.failed),
    ]


def of_rest(name: str, arm: str, calls: int) -> list[Sample]:
    """What a call costs at rest under Inductor, for programs that come to rest."""
    if PROGRAMS[name].calls == 1:
        return []
    life = measured(name, arm, calls, "inductor")
    return [Sample(name, "at rest, Inductor", arm, _at_rest(life))]


def _at_rest(life: Lived) -> float:
    """Seconds of a call at the end of a life."""
    last = life.ends[-min(_AT_REST, len(life.ends) // 2 + 1) - 1 :]
    return statistics.median([b - a for a, b in pairwise(last)] or life.ends)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help="programs; all if none")
    parser.add_argument("--calls", type=int, help="calls of each program; its own number if none")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each arm")
    parser.add_argument("--backend", default="eager", help="backend of torch.compile")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    parser.add_argument("--lives", type=Path, metavar="PATH", help="write the last lives here")
    parser.add_argument("--only", nargs=2, metavar=("NAME", "ARM"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(asdict(measure(*options.only, options.calls, options.backend))))
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
                life = measured(name, arm, calls, options.backend)
                lives[name][arm] = [round(end, 5) for end in life.ends]
                samples += of_life(name, arm, life)
                if options.backend == "eager" and arm != "eager":
                    samples += of_rest(name, arm, calls)
    progress(total, total, "")
    if options.json:
        write_json(options.json, samples)
    if options.lives:
        options.lives.write_text(json.dumps(lives) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
