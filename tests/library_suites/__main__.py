"""Other people's tests: in eager Python, compiled by stock, and compiled with mending.

    python -m tests.library_suites --packages build/libs --sample 40 --seed 1

The source distributions of constraints/library_tests.txt are fetched, and a sample of the tests of
each is run in eager Python and with mending, and where these differ in eager Python once more and with
stock `torch.compile`. Compared are whether a test passes and, bit by bit, what its variables hold when
it returns. The exit status is 1 if mending differs where stock does not.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import sys
import time
from pathlib import Path

import torch

from tests.fuzz.record import commit
from tests.library_suites.arms import Row, Way, arms_of, listed
from tests.library_suites.suites import SUITES, Suite, version_of
from tests.library_suites.tally import MENDING, keep, run_of, write_table

_NAMES = ",".join(suite.library for suite in SUITES)


def main(arguments: list[str] | None = None) -> int:
    """Run the tests, or write the table of the runs that are kept."""
    options = _options().parse_args(arguments)
    if options.table:
        write_table()
        return 0
    way = Way(
        options.folder.resolve(),
        options.packages.resolve(),
        options.compiled,
        options.backend,
        options.limit,
    )
    wrong = 0
    for suite in SUITES:
        if suite.library in options.libraries.split(","):
            run = _run(suite, way, options)
            wrong += run["verdicts"].get(MENDING, 0)
            if options.record:
                keep(run)
    return 1 if wrong else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.library_suites", description=__doc__)
    parser.add_argument("--libraries", default=_NAMES, help=f"(default: {_NAMES})")
    parser.add_argument("--sample", type=int, default=0, help="tests of each library (all)")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--compiled",
        choices=("library", "tests"),
        default="library",
        help="calls of the library's functions, or the tests themselves",
    )
    parser.add_argument("--backend", default="eager", help="of torch.compile (eager)")
    parser.add_argument(
        "--limit", type=int, default=60, help="seconds of a processor for a test (60)"
    )
    parser.add_argument("--filter", default="", help="part of the tests' names")
    parser.add_argument("--packages", type=Path, default=Path("build/libs"))
    parser.add_argument("--folder", type=Path, default=Path("build/library_tests"))
    parser.add_argument(
        "--stock", action="store_true", help="all tests with stock, not only where mending differs"
    )
    parser.add_argument("--record", action="store_true", help="keep the result in docs/results")
    parser.add_argument("--table", action="store_true", help="only write the table of the docs")
    return parser


def _run(suite: Suite, way: Way, options: argparse.Namespace) -> Row:
    """Run a sample of one library's tests in all arms."""
    begin = time.monotonic()
    names = [name for name in listed(suite, way) if options.filter in name]
    chosen = set(names)
    if 0 < options.sample < len(names):
        chosen = set(random.Random(options.seed).sample(names, options.sample))
    names = [name for name in names if name in chosen]
    tests = arms_of(suite, way, names, with_stock=options.stock)
    (way.folder / f"{suite.library}.json").write_text(json.dumps(tests, indent=1))
    about = {
        "library": suite.library,
        "version": version_of(suite.library),
        "command": _command(suite, options),
        "commit": commit(),
        "python": platform.python_version(),
        "torch": torch.__version__.partition("+")[0],
        "what": options.compiled,
        "backend": options.backend,
        "seconds": round(time.monotonic() - begin),
    }
    run = run_of(about, tests)
    print(json.dumps(run, indent=1), flush=True)
    return run


def _command(suite: Suite, options: argparse.Namespace) -> str:
    """What runs the same tests again, `make`'s arguments."""
    given = {
        "sample": 0,
        "seed": 0,
        "compiled": "library",
        "backend": "eager",
        "filter": "",
        "limit": 60,
    }
    parts = [
        f"--{name} {value}" for name in given if (value := getattr(options, name)) != given[name]
    ]
    return " ".join(["python -m tests.library_suites", f"--libraries {suite.library}", *parts])


if __name__ == "__main__":
    sys.exit(main())
