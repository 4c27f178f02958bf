"""Rewrite a share of all branches of real code, and run it.

    python -m tests.load                                  # a third of the standard library
    python -m tests.load --seed 7 test_json test_enum     # these modules of CPython's tests
    python -m tests.load --share 1 test_csv               # all branches
    python -m tests.load --packages build/libs            # uses of other libraries
    python -m tests.load --packages build/libs --only einops/

One line is printed for each; the exit status is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.load import cpython_tests, libraries


def _lines(given: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    if given.packages:
        yield from libraries.compare(given.packages, given.seed, given.share, given.only)
        return
    for module in given.modules:
        yield cpython_tests.compare(module, given.seed, given.share)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", default=cpython_tests.MODULES)
    parser.add_argument("--packages", type=Path, help="folder that libraries are installed in")
    parser.add_argument("--only", default="", help="part of the names of uses of libraries")
    parser.add_argument("--seed", type=int, default=1, help="decides which branches (1)")
    parser.add_argument("--share", type=float, default=1 / 3, help="of the branches (a third)")
    total = bad = 0
    for line, found in _lines(parser.parse_args()):
        print(line, *found, sep="\n    ", flush=True)
        total, bad = total + 1, bad + bool(found)
    print(f"{total} compared, {bad} differ")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
