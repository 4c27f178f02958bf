"""What mending gives and costs on a CPU, beside eager Python, stock torch.compile and hand-fixes.

    python benchmarks/speed.py [--rounds 9] [--only NAME ...] [--json PATH]

Arms: `eager`; `stock`; `options`, stock with its options for numbers and shapes that come from
data and with loggers ignored, which loses their messages; `mended`; `twin`, fixed by hand. Each arm
is a process of its own with one thread. Two arms compile at a time; their calls take turns.
Inductor, processor time. Measures:

    graphs           graphs that the first call compiles
    runs             compiled graphs that run in a call at rest
    first call       seconds, kernels compiled anew
    second process   the same with the caches that the first process left
    trace            seconds of a first call with the backend "eager": Dynamo and mending alone
    call             seconds of a call that compiles nothing
    peak             most bytes that such a call had allocated
    error            distance of the results to eager's, relative to their norm
    miss             seconds of a call that takes the arm that was not speculated on
    failed           the compiler raised an error

A training step, forward and backward, has the same measures with "training: " before them.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor.config
from measuring import Sample, cpu_seconds, profiled, progress, start_arm, write_json
from programs import Program, Ready, programs
from torch._dynamo.utils import counters
from torch._inductor.utils import clear_caches
from worker import Worker

import graphmend_bc as gm

COMPILED = ("stock", "options", "mended", "twin")
ARMS = ("eager", *COMPILED)
WARM_UP = 40
"""Calls before anything is timed: enough for a wrong speculation to be given up."""

TRACES = 3
"""Rounds in which each arm is traced."""

BLOCK = 0.05
"""Seconds of calls that are timed together."""

MISSES = 7
CPU = torch.device("cpu")


class Arm:
    """One arm, in a process of its own: compiles a program and calls it.

    Args:
        name: one of `ARMS`.
        caches: folder for what is compiled; a folder that another process filled is a warm one.
    """

    def __init__(self, name: str, caches: str) -> None:
        logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # stock's breaks are no news
        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        torch._inductor.config.compile_threads = 1  # in this process, where its time is counted
        if name in ("options", "twin"):
            _capture()
        if name == "options":
            _ignore_messages()
        self.name, self._caches, self._programs = name, Path(caches), programs(CPU)
        self._cache_in("nothing")
        torch.compile(lambda x: x + 1)(torch.ones(2))  # loads what torch needs
        self._program: Program
        self._ready: Ready
        self._function: Callable[..., Any]

    def first_call(self, name: str, trains: bool) -> dict[str, float]:
        """Compile a program, and say what that took."""
        self._program = self._programs[name]
        self._cache_in(f"{name}, training" if trains else name)
        start_arm(self.name)
        gm.config.disk_cache = True
        self._ready = self._fresh(trains)
        model = self._ready.model
        self._function = model if self.name == "eager" else torch.compile(model)
        call = self._ready.caller(self._function)
        start = cpu_seconds()
        call()
        seconds = cpu_seconds() - start
        graphs = counters["stats"]["unique_graphs"]
        for _ in range(WARM_UP):
            call()
        return {"first call": seconds, "graphs": graphs}

    def results(self) -> list[Any]:
        """What a call computes, as arrays."""
        found = self._ready.results(self._function)
        return [t.numpy() if t.dtype != torch.bfloat16 else t.float().numpy() for t in found]

    def error(self, expected: list[Any]) -> float:
        """Norm of the difference to what is expected, over the norm; infinite if shapes differ."""
        found = self.results()
        if [a.shape for a in found] != [a.shape for a in expected]:
            return float("inf")
        ours, theirs = (
            np.concatenate([a.ravel().astype(np.float64) for a in side])
            for side in (found, expected)
        )
        return float(np.linalg.norm(ours - theirs) / max(float(np.linalg.norm(theirs)), 1e-30))

    def calls(self, count: int) -> float:
        """Seconds of one of so many calls."""
        return _timed(self._ready.caller(self._function), count)

    def profile(self) -> dict[str, float]:
        """Most bytes that a call had allocated, and the compiled graphs that it ran."""
        peak, runs = profiled(self._ready.caller(self._function))
        return {"peak": peak, "runs": runs}

    def misses(self) -> list[float]:
        """Seconds of calls that miss, among enough others that the speculation stays as it is."""
        x = self._ready.args[0] * self._program.misses
        other = replace(self._ready, args=(x, *self._ready.args[1:])).caller(self._function)

        def call() -> None:
            try:
                other()
            except (ValueError, AssertionError):
                return  # what the guard is there for

        seconds = []
        for _ in range(MISSES):
            self.calls(10)
            seconds.append(_timed(call, 1))
        return seconds

    def trace(self, trains: bool) -> float:
        """Seconds of a first call of Dynamo alone, nothing known from before."""
        start_arm(self.name)
        gm.config.disk_cache = False
        ready = self._fresh(trains)
        call = ready.caller(torch.compile(ready.model, backend="eager"))
        return _timed(call, 1)

    def _fresh(self, trains: bool) -> Ready:
        ready = self._program.make(self.name, CPU)
        return replace(ready, trains=ready.trains or trains)

    def _cache_in(self, name: str) -> None:
        folder = str(self._caches / name.replace(" ", "_"))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = gm.config.cache_dir = folder
        clear_caches()


def _capture() -> None:
    """Stock's options for numbers and sizes that come from data."""
    torch._dynamo.config.capture_scalar_outputs = True
    torch._dynamo.config.capture_dynamic_output_shape_ops = True


def _ignore_messages() -> None:
    """Stock's option against breaks at loggers; the messages are lost."""
    torch._dynamo.config.ignore_logging_functions |= {logging.Logger.warning, warnings.warn}


def _timed(call: Callable[[], Any], count: int) -> float:
    start = cpu_seconds()
    for _ in range(count):
        call()
    return (cpu_seconds() - start) / count


class Bench:
    """Measures programs in all arms.

    Attributes:
        samples: all that was measured.
    """

    def __init__(self, folder: Path, rounds: int) -> None:
        self.samples: list[Sample] = []
        self._folder, self._rounds = folder, rounds

    def run(self, chosen: dict[str, Program]) -> None:
        """Measure cold processes, then warm ones."""
        arms = self._start(ARMS)
        for done, (name, program) in enumerate(chosen.items()):
            progress(done, 2 * len(chosen), name)
            self._program(name, program, arms, trains=False)
            if program.trains:
                self._program(name, program, arms, trains=True)
        for worker in arms.values():
            worker.close()
        arms = self._start(COMPILED)
        for done, (name, program) in enumerate(chosen.items(), len(chosen)):
            progress(done, 2 * len(chosen), f"{name}, second process")
            for trains in (False, True) if program.trains else (False,):
                workers, prefix = self._of(program, arms), "training: " if trains else ""
                seconds = _two_at_a_time(workers, partial(_second, name=name, trains=trains))
                for arm, found in seconds.items():
                    self._note(name, prefix, arm, found)
        for worker in arms.values():
            worker.close()
        progress(1, 1, "")

    def _start(self, names: tuple[str, ...]) -> dict[str, Worker]:
        return {name: Worker(Arm, name, str(self._folder / name)) for name in names}

    def _of(self, program: Program, arms: dict[str, Worker]) -> dict[str, Worker]:
        """The arms of a program: what has no break was not fixed."""
        return {a: w for a, w in arms.items() if not (program.is_whole and a == "twin")}

    def _program(
        self, name: str, program: Program, arms: dict[str, Worker], *, trains: bool
    ) -> None:
        prefix = "training: " if trains else ""
        arms = self._of(program, arms)
        arms["eager"].ask("first_call", name, trains)
        expected = arms["eager"].ask("results")
        compiled = {arm: worker for arm, worker in arms.items() if arm != "eager"}
        figures = _two_at_a_time(compiled, lambda worker: _compiled(worker, name, trains, expected))
        for arm, found in figures.items():
            self._note(name, prefix, arm, found)
        live = {arm: arms[arm] for arm in arms if "failed" not in figures.get(arm, {})}
        self._calls(name, prefix, live)
        if program.misses is not None and not trains:
            for arm in ("eager", "mended"):
                for seconds in live[arm].ask("misses"):
                    self._note(name, prefix, arm, {"miss": seconds})
        for _ in range(TRACES):
            for arm in (a for a in live if a != "eager"):
                self._note(name, prefix, arm, {"trace": live[arm].ask("trace", trains)})

    def _calls(self, name: str, prefix: str, live: dict[str, Worker]) -> None:
        count = max(3, min(1000, int(BLOCK / live["eager"].ask("calls", 3))))
        for number in range(self._rounds):
            order = list(live)
            for arm in order[number % len(order) :] + order[: number % len(order)]:
                self._note(name, prefix, arm, {"call": live[arm].ask("calls", count)})
        for arm, worker in live.items():
            self._note(name, prefix, arm, worker.ask("profile"))

    def _note(self, name: str, prefix: str, arm: str, figures: dict[str, float]) -> None:
        for measure, value in figures.items():
            self.samples.append(Sample(name, prefix + measure, arm, value))


def _two_at_a_time(
    workers: dict[str, Worker], ask: Callable[[Worker], dict[str, float]]
) -> dict[str, dict[str, float]]:
    """The answers of all arms; compilers run on two cores, and each counts its own time."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(workers, pool.map(ask, workers.values()), strict=True))


def _compiled(worker: Worker, name: str, trains: bool, expected: list[Any]) -> dict[str, float]:
    """What an arm's first call came to."""
    try:
        figures: dict[str, float] = worker.ask("first_call", name, trains)
        return figures | {"error": worker.ask("error", expected)}
    except RuntimeError as error:
        print(f"\n{name}: {error}", file=sys.stderr)
        return {"failed": 1}


def _second(worker: Worker, name: str, trains: bool) -> dict[str, float]:
    """The first call of a second process."""
    try:
        return {"second process": worker.ask("first_call", name, trains)["first call"]}
    except RuntimeError:
        return {}  # the first process has said so


def main(argv: list[str] | None = None) -> int:
    known = programs(CPU)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="of calls in turns (9)")
    parser.add_argument("--only", nargs="+", choices=list(known), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    args = parser.parse_args(argv)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    chosen = {n: p for n, p in known.items() if args.only is None or n in args.only}
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), args.rounds)
        bench.run(chosen)
    print(f"{len(chosen)} programs in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if args.json:
        write_json(args.json, bench.samples)
    return 0


if __name__ == "__main__":
    sys.exit(main())
