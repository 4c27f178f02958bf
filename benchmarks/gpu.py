"""What mending gives on a GPU, beside stock torch.compile and hand-fixed code.

    python benchmarks/gpu.py [--minutes 8.5] [--only NAME ...] [--turns NAME ...] [--out FOLDER]

It needs torch with CUDA, graphmend_bc and a GPU, and writes gpu.json and gpu.md. Each program runs
in eager Python, compiled by stock, mended, and fixed by hand (`twin`), in Inductor's default mode
and in `reduce-overhead`, which uses CUDA graphs. Each arm starts from a fresh Dynamo; its calls
are timed in turns with those of eager Python. Of each arm:

    first call    seconds, kernels compiled anew; under reduce-overhead they are in the cache
    call          seconds from the call until the GPU is done; `eager beside` are eager's in between
    launches, ... what `device_counts.py` counts
    skips         graphs for which Inductor went without CUDA graphs
    re-recordings CUDA graphs that were recorded again
    peak          bytes that a call allocated at most, default mode
    graphs        graphs that a first call compiles
    error         distance to eager's results, relative to their norm
    differs       with the backend "eager": how many results are not eager's, bit for bit; of
                  eager Python: how many are others in a second run
    failed        the compiler raised an error

Some programs are measured with one strategy for branches alone too: `where`, `cond`, `speculate`.

The host may be slower in one minute than in the next, and an arm is over within seconds. So
`--turns` compiles mended and hand-fixed code in one process, and times blocks of both in turns.

All runs in a frame with room on the interpreter's stack. Else chance decides whether the calls of
an arm's kernels map memory each: it made one of two equal graphs of 260 kernels 1.4 times as slow.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from device_counts import measured_counts
from gpu_tables import markdown
from measuring import Sample, environment, progress, start_arm, write_json
from programs import Program, Ready, programs
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

import graphmend_bc as gm
from graphmend_bc.dynamo.graph.cuda_graph_counts import cuda_graph_counts
from graphmend_bc.runtime.data_stack import call_with_stack_room

CUDA = torch.device("cuda")
MODES = ("default", "reduce-overhead")
ALONE = ("where", "cond", "speculate")
"""Strategies that are compared with each other."""

WARM_UP, TRACED, ROUNDS = 6, 10, 7
BLOCK = 0.04
"""Seconds of calls that are timed together."""


class Bench:
    """Measures programs on one device.

    Attributes:
        samples: all that was measured.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.samples: list[Sample] = []

    def run(self, name: str, program: Program) -> None:
        """Measure all arms of a program."""
        eager = program.make("stock", self.device)
        call, expected = eager.caller(eager.model), eager.results(eager.model)
        self._note(name, "default", "eager", self._counts(call))
        self._peak(name, "eager", call)
        arms = ["stock", "mended"] if program.is_whole else ["stock", "mended", "twin"]
        arms += [f"{only} alone" for only in ALONE] if program.compares else []
        for arm in arms:
            with _choice_of(arm), fresh_cache():
                for mode in MODES:
                    ready = program.make("twin" if arm == "twin" else "stock", self.device)
                    try:
                        self._arm(name, mode, arm, ready, call, expected)
                    except Exception as error:
                        print(f"{name}, {mode}, {arm}: {error!r}", file=sys.stderr)
                        self._sample(name, mode, arm, "failed", 1)
        self._exactness(name, program, expected)
        start_arm("stock")

    def _arm(
        self,
        name: str,
        mode: str,
        arm: str,
        ready: Ready,
        eager: Callable[[], Any],
        expected: list[torch.Tensor],
    ) -> None:
        start_arm("stock" if arm in ("stock", "twin") else "mended")
        compiled = torch.compile(ready.model, mode=None if mode == "default" else mode)
        call = ready.caller(compiled)
        start = time.perf_counter()
        call()
        self._wait()
        figures: dict[str, float] = {"first call": time.perf_counter() - start}
        figures["graphs"] = counters["stats"]["unique_graphs"]
        for _ in range(WARM_UP):
            call()
        figures["error"] = _distance(ready.results(compiled), expected)
        counts = self._counts(call)
        figures["skips"] = counters["inductor"]["cudagraph_skips"]
        figures["re-recordings"] = cuda_graph_counts().rerecorded
        self._note(name, mode, arm, counts | figures)
        if mode == "default":
            self._peak(name, arm, call)
        self._time(name, mode, arm, eager, call)

    def _time(
        self, name: str, mode: str, arm: str, eager: Callable[[], Any], call: Callable[[], Any]
    ) -> None:
        sizes = {what: self._block_size(what) for what in (eager, call)}
        for _ in range(ROUNDS):
            self._sample(name, mode, arm, "eager beside", self._block(eager, sizes[eager]))
            self._sample(name, mode, arm, "call", self._block(call, sizes[call]))

    def _block_size(self, call: Callable[[], Any]) -> int:
        return max(3, min(200, int(BLOCK / max(self._block(call, 3), 1e-6))))

    def _block(self, call: Callable[[], Any], count: int) -> float:
        self._wait()
        start = time.perf_counter()
        for _ in range(count):
            call()
            self._wait()
        return (time.perf_counter() - start) / count

    def take_turns(self, name: str, program: Program) -> None:
        """Time blocks of calls of mended and of hand-fixed code in turns, default mode."""
        calls: dict[str, Callable[[], Any]] = {}
        for arm in ("mended", "twin"):
            gm.enable() if arm == "mended" else gm.disable()
            ready = program.make("twin" if arm == "twin" else "stock", self.device)
            calls[arm] = ready.caller(torch.compile(ready.model))
            for _ in range(WARM_UP):
                calls[arm]()
        sizes = {arm: self._block_size(call) for arm, call in calls.items()}
        for _ in range(3 * ROUNDS):
            for arm, call in calls.items():
                self._sample(name, "default", arm, "call in turns", self._block(call, sizes[arm]))
        start_arm("stock")

    def _exactness(self, name: str, program: Program, expected: list[torch.Tensor]) -> None:
        """How many results are not eager's where kernels are the same; eager is run again too."""
        for arm in ("eager", "stock", "mended"):
            start_arm(arm)
            ready = program.make("stock", self.device)
            compiled = (
                ready.model if arm == "eager" else torch.compile(ready.model, backend="eager")
            )
            pairs = zip(ready.results(compiled), expected, strict=True)
            differing = sum(not torch.equal(one, other) for one, other in pairs)
            self._sample(name, "default", arm, "differs", differing)

    def _counts(self, call: Callable[[], Any]) -> dict[str, float]:
        if self.device.type != "cuda":
            return {}
        with tempfile.TemporaryDirectory() as folder:
            counts = measured_counts(call, TRACED, folder)
        return {name.replace("_", " "): value for name, value in counts.items()}

    def _peak(self, name: str, arm: str, call: Callable[[], Any]) -> None:
        if self.device.type != "cuda":
            return
        self._wait()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        self._wait()
        peak = torch.cuda.max_memory_allocated() - before
        self._sample(name, "default", arm, "peak", peak)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def _note(self, name: str, mode: str, arm: str, figures: dict[str, float]) -> None:
        for measure, value in figures.items():
            self._sample(name, mode, arm, measure, value)

    def _sample(self, name: str, mode: str, arm: str, measure: str, value: float) -> None:
        self.samples.append(Sample(name, f"{mode}: {measure}", arm, value))


def _distance(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """Norm of the difference over the norm; infinite if the shapes differ."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return float("inf")
    pairs = [(a.double(), b.double()) for a, b in zip(found, expected, strict=True)]
    difference = sum(float((a - b).square().sum()) for a, b in pairs)
    size = sum(float(b.square().sum()) for _, b in pairs)
    return float((difference / max(size, 1e-30)) ** 0.5)


@contextlib.contextmanager
def _choice_of(arm: str) -> Iterator[None]:
    """Leaves one of the strategies that are compared, if the arm says which."""
    only = arm.removesuffix(" alone")
    kept = tuple(s for s in gm.config.strategies if s not in ALONE or s == only)
    with gm.config.patch(strategies=kept) if only in ALONE else contextlib.nullcontext():
        yield


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=8.5, help="begin nothing after (8.5)")
    parser.add_argument("--only", nargs="+", choices=list(programs(CUDA)), metavar="NAME")
    parser.add_argument("--turns", nargs="+", choices=list(programs(CUDA)), metavar="NAME")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, to test the benchmark")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Measure, and write after each program what is there so far."""
    args = parse(argv)
    if not (args.dry_run or torch.cuda.is_available()):
        print(
            f"torch {torch.__version__} sees no GPU. Install a build of torch for CUDA on a "
            "machine with one, or try the benchmark on the CPU with --dry-run.",
            file=sys.stderr,
        )
        return 2
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # stock's breaks are no news
    warnings.simplefilter("ignore")  # of TF32, of torch's profiler
    start, bench = time.monotonic(), Bench(torch.device("cpu") if args.dry_run else CUDA)
    torch.compile(lambda x: x + 1)(torch.ones(2, device=bench.device))  # loads what torch needs
    known = programs(bench.device).items()
    of_all = args.only is None and args.turns is None
    chosen = {n: p for n, p in known if of_all or n in (args.only or ())}
    args.out.mkdir(parents=True, exist_ok=True)
    left_out: list[str] = []
    for done, (name, program) in enumerate(chosen.items()):
        progress(done, len(chosen), name)
        if time.monotonic() - start > args.minutes * 60:
            left_out.append(name)
            continue
        bench.run(name, program)
        write_json(args.out / "gpu.json", bench.samples)
    for name in args.turns or ():
        bench.take_turns(name, dict(known)[name])
        write_json(args.out / "gpu.json", bench.samples)
    progress(len(chosen), len(chosen), "")
    text = markdown(environment(), bench.samples, left_out)
    (args.out / "gpu.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(call_with_stack_room(main))
