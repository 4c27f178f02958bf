"""Many generated programs in several processes: `python -m tests.fuzz --count 20000 --seed 1`.

Each batch runs in a process of its own, so that one which crashes or leaks harms no other. Failing
programs are written as scripts that show what is wrong, shrunk. The exit status is 1 if one was found, else 0.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.record import FILE, keep, run_of
from tests.fuzz.tally import Tally

BATCH = 200
"""Programs in a process. The batches of a seed do not depend on the number of processes, but on their size."""


FAMILIES = (
    *("any", "plain", "aliases", "threads", "saved", "inductor"),
    *("surroundings", "process", "values", "training"),
)
"""What `--kind` may be: the keys of `tests.fuzz.kinds.KINDS`."""


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
        choices=FAMILIES,
        default="any",
        help="a family of `tests/fuzz/kinds.py`: plain, aliases, threads, saved, or what the programs read that changes "
        "between calls: surroundings, process, values, training; or inductor (default: any, all of them)",
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
    parser.add_argument(
        "--out", type=Path, default=Path("fuzz_found"), help="folder for scripts of what is found"
    )
    parser.add_argument(
        "--no-shrink",
        action="store_true",
        help="go on after a program that fails, and leave it as it is",
    )
    parser.add_argument(
        "--record", action="store_true", help="add the result to docs/results/fuzz.jsonl"
    )
    parser.add_argument("--child", type=Path, default=None, help=argparse.SUPPRESS)
    return parser


# One batch, in a child process


def _run_batch(options: argparse.Namespace) -> None:
    import torch

    from tests.fuzz.found import script_of
    from tests.fuzz.hunt import hunt

    seed, folder = options.seed, options.child
    if options.device != "cpu":
        torch.set_default_device(options.device)
    running = folder / f"{seed}.running"
    catch = hunt(
        options.count,
        seed,
        kind=options.kind,
        shrink=not options.no_shrink,
        about_to=lambda program: _write(running, script_of(program, "It ended its process.")),
    )
    found = [[script_of(program, difference), difference] for program, difference in catch.failures]
    stock = catch.stock and script_of(*catch.stock, "Stock torch.compile is wrong here too")
    counts = {"faults": catch.faults, "met": catch.met, "kinds": catch.kinds}
    _write(folder / f"{seed}.json", json.dumps(counts | {"found": found, "stock": stock}))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# All batches


@dataclass
class _Child:
    seed: int
    count: int
    process: subprocess.Popen[bytes]


def _run_all(options: argparse.Namespace) -> int:
    start, tally = time.monotonic(), Tally(options.out)
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
                tally.add(child.seed, child.process.returncode, folder)
                batch = f"batch {child.seed % 1_000_000}"
                print(f"{time.monotonic() - start:6.0f} s  {batch}: {tally}", flush=True)
            time.sleep(0.1)
    print(tally.details())
    if options.record:
        counts = tally.faults, tally.kinds, tally.met
        seconds = time.monotonic() - start
        keep(run_of(_as_given(options), options.device, seconds, counts, tally.found), FILE)
    return 1 if tally.found else 0


def _as_given(chosen: argparse.Namespace) -> list[str]:
    """The arguments that say which programs are made."""
    given = [f"--count {chosen.count}", f"--seed {chosen.seed}"]
    for name in ("kind", "first", "device", "batch", "minutes"):
        value = getattr(chosen, name)
        if value != options().get_default(name):
            given.append(f"--{name} {value:g}" if name == "minutes" else f"--{name} {value}")
    return [*given, "--no-shrink"] if chosen.no_shrink else given


def _start(seed: int, count: int, options: argparse.Namespace, folder: Path) -> _Child:
    command = [sys.executable, "-m", "tests.fuzz", "--child", str(folder)]
    command += ["--kind", options.kind, "--device", options.device]
    command += ["--no-shrink"] if options.no_shrink else []
    with (folder / f"{seed}.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--seed", str(seed), "--count", str(count)], stdout=log, stderr=log
        )
    return _Child(seed, count, process)


if __name__ == "__main__":
    sys.exit(main())
