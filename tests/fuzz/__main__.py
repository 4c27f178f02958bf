"""Many generated programs in several processes: `python -m tests.fuzz --count 20000 --seed 1`.

Each batch runs in a process of its own, so that one which crashes or leaks harms no other. Failing
programs are written as tests, shrunk. The exit status is 1 if one was found, else 0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

BATCH = 200
"""Programs in a process. The batches of a seed do not depend on the number of processes, but on their size."""


def main(arguments: list[str] | None = None) -> int:
    """Run the batches, or the one batch a child process is asked for."""
    given = options().parse_args(arguments)
    if given.child is not None:
        _run_batch(given)
        return 0
    return _run_all(given)


def options() -> argparse.ArgumentParser:
    """What the command line takes."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="programs (default: 20000)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed, the same programs")
    parser.add_argument(
        "--kind",
        choices=("any", "plain", "surroundings", "process"),
        default="any",
        help="surroundings: what the programs read changes between calls; process: each has settings, streams, "
        "finalisers, stances, modes or generators of the process among it (default: any, a third of them do)",
    )
    parser.add_argument(
        "--first", type=int, default=0, help="batch to go on with, of a run that was cut"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--device", default="cpu", help="where tensors are made (default: cpu)")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"programs in a process ({BATCH})")
    parser.add_argument(
        "--minutes", type=float, default=None, help="start no batch after this long"
    )
    parser.add_argument("--out", type=Path, default=Path("fuzz_found.py"), help="for what is found")
    parser.add_argument("--child", type=Path, default=None, help=argparse.SUPPRESS)
    return parser


# One batch, in a child process


def _run_batch(options: argparse.Namespace) -> None:
    import torch

    from tests.fuzz.hunt import hunt

    seed, folder = options.seed, options.child
    if options.device != "cpu":
        torch.set_default_device(options.device)
    running = folder / f"{seed}.running"
    catch = hunt(
        options.count,
        seed,
        kind=options.kind,
        about_to=lambda program: _write(running, program.test()),
    )
    found = {
        name: None if pair is None else [pair[0].test(f"test_found_{seed}"), pair[1]]
        for name, pair in (("failure", catch.failure), ("stock", catch.stock))
    }
    _write(folder / f"{seed}.json", json.dumps(found | {"faults": catch.faults, "met": catch.met}))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# All batches


@dataclass
class _Child:
    seed: int
    count: int
    process: subprocess.Popen[bytes]


def _run_all(options: argparse.Namespace) -> int:
    start, tally = time.monotonic(), _Tally(options.out)
    size = options.batch
    sizes = [min(size, options.count - done) for done in range(0, options.count, size)]
    batches = [(options.seed * 1_000_000 + number, size) for number, size in enumerate(sizes)]
    waiting = batches[options.first :][::-1]
    running: list[_Child] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while waiting or running:
            if options.minutes and time.monotonic() - start > options.minutes * 60:
                waiting.clear()
            while waiting and len(running) < options.jobs:
                running.append(_start(*waiting.pop(), options, folder))
            for child in [child for child in running if child.process.poll() is not None]:
                running.remove(child)
                tally.add(child, folder)
                batch = f"batch {child.seed % 1_000_000}"
                print(f"{time.monotonic() - start:6.0f} s  {batch}: {tally}", flush=True)
            time.sleep(0.1)
    print(tally.details())
    return 1 if tally.failures else 0


def _start(seed: int, count: int, options: argparse.Namespace, folder: Path) -> _Child:
    command = [sys.executable, "-m", "tests.fuzz", "--child", str(folder)]
    command += ["--kind", options.kind, "--device", options.device]
    with (folder / f"{seed}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--seed", str(seed), "--count", str(count)], stdout=log, stderr=log
        )
    return _Child(seed, count, process)


class _Tally:
    """What all batches came to, and the file of what was found."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.faults: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.failures = 0

    def add(self, child: _Child, folder: Path) -> None:
        """Count a batch that has ended."""
        answer = folder / f"{child.seed}.json"
        if child.process.returncode != 0 or not answer.exists():
            running, log = folder / f"{child.seed}.running", folder / f"{child.seed}.log"
            tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            why = f"The process of batch {child.seed} ended with {child.process.returncode}. {tail}"
            self._found(running.read_text(encoding="utf-8") if running.exists() else "", why)
            return
        found = json.loads(answer.read_text(encoding="utf-8"))
        self.faults.update(found["faults"])
        self.met.update(found["met"])
        if found["failure"]:
            self._found(*found["failure"])
        if found["stock"]:
            self._note(*found["stock"], "Stock torch.compile is wrong here too")

    def _found(self, test: str, difference: str) -> None:
        self.failures += 1
        self._note(test, difference, "Mending is wrong here")

    def _note(self, test: str, difference: str, title: str) -> None:
        remarks = "".join(f"# {line[:400]}\n" for line in f"{title}: {difference}".splitlines())
        with self.out.open("a", encoding="utf-8") as file:
            file.write(f"{remarks}{test}\n\n")

    def __str__(self) -> str:
        programs = sum(self.faults.values())
        return (
            f"{programs} programs, {self.faults['NONE']} exact, {self.faults['STOCK']} that stock "
            f"gets wrong too, {self.faults['BACKEND']} the backend, {self.failures} failures"
        )

    def details(self) -> str:
        """Which strategies and reasons the programs met, and where the failures are."""
        met = ", ".join(f"{name} {count}" for name, count in self.met.most_common())
        where = f"\nThe programs are in {self.out}." if self.out.exists() else ""
        return f"Met in programs: {met}{where}"


if __name__ == "__main__":
    sys.exit(main())
