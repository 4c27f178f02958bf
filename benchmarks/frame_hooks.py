"""What the frame hooks cost: pure Python calls beside them, and calls of an attached function.

    python benchmarks/frame_hooks.py [--seconds 1.0] [--json PATH]

First, calls per second of a recursive Python function that nobody attaches to, while nothing
is attached (1.00), while a target is waited for, once it was seen, while a pattern is waited for,
and inside a profile. Second, seconds of a call of a small compiled function that is
attached, and of torch.compile's own wrapper of it.

The conditions take turns in short rounds, so that a slow moment of the machine meets all of them;
the best round of each counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch
from measuring import Sample, write_json

import graphmend_bc as gm

X = torch.ones(8)
BATCH = 40  # calls timed together: well below a time slice, so that some batches run undisturbed


def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def calls_of_fib(n: int) -> int:
    """How many calls `fib(n)` makes, itself included."""
    return 1 if n < 2 else 1 + calls_of_fib(n - 1) + calls_of_fib(n - 2)


def attached(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def wrapped(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def best_seconds(work: Callable[[], object], seconds: float) -> float:
    """The shortest time that one call of `work` takes, within a budget of seconds."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        work()
        now = time.perf_counter()
        best = min(best, now - start)
        if now >= end:
            return best


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def waiting() -> Iterator[None]:
    with gm.attach(attached, backend="eager"):
        yield


@contextmanager
def seen() -> Iterator[None]:
    with gm.attach(attached, backend="eager"):
        attached(X)
        yield


@contextmanager
def waiting_for_a_pattern() -> Iterator[None]:
    with gm.attach("no_such_package.models.*", backend="eager"):
        yield


@contextmanager
def profiling() -> Iterator[None]:
    with gm.profile():
        yield


CONDITIONS = {
    "nothing attached": nothing,
    "waiting for a function": waiting,
    "function attached and seen": seen,
    "waiting for a pattern": waiting_for_a_pattern,
    "nothing attached again": nothing,
    "profiling": profiling,
}


def python_calls(seconds: float, rounds: int = 10, n: int = 18) -> dict[str, float]:
    """Calls of Python functions per second under each condition."""
    count = calls_of_fib(n)
    best = dict.fromkeys(CONDITIONS, float("inf"))
    for _ in range(rounds):
        for name, condition in CONDITIONS.items():
            with condition():
                taken = best_seconds(lambda: fib(n), seconds / rounds)
            best[name] = min(best[name], taken)
    return {name: count / taken for name, taken in best.items()}


def compiled_calls(backend: str, seconds: float, rounds: int = 20) -> dict[str, float]:
    """Seconds of a call of one compiled function, by the way to it."""
    torch._dynamo.reset()
    wrapper = torch.compile(wrapped, backend=backend)
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "wrapper of torch.compile": wrapper,
        "wrapper, while something is attached": wrapper,
        "attached function": attached,
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, function in ways.items():
            with ExitStack() as around:
                if name != "wrapper of torch.compile":
                    around.enter_context(gm.attach(attached, backend=backend))

                def work(function: Callable[[torch.Tensor], torch.Tensor] = function) -> None:
                    for _ in range(BATCH):
                        function(X)

                work()
                best[name] = min(best[name], best_seconds(work, seconds / rounds) / BATCH)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each row")
    parser.add_argument(
        "--backends", nargs="+", default=["eager", "inductor"], help="of the compiled function"
    )
    args = parser.parse_args()
    samples = [
        Sample(condition, "Python calls a second", "mended", value)
        for condition, value in python_calls(args.seconds).items()
    ]
    for backend in args.backends:
        for way, seconds in compiled_calls(backend, args.seconds).items():
            samples.append(Sample(f"backend {backend}", "call", way, seconds))
    if args.json:
        write_json(args.json, samples)


if __name__ == "__main__":
    main()
