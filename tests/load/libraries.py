"""The uses of other libraries that the benchmarks have, with a share of the branches rewritten.

Each use is called eagerly, then again with all that is loaded from the packages' folder rewritten; outputs,
gradients, state, random numbers, messages and what is printed must be the same, bit by bit.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.load.in_place import Rewriter

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def compare(packages: Path, seed: int, share: float, only: str) -> Iterator[tuple[str, list[str]]]:
    """For each use whose name contains a text, a line of counts and what differs.

    Args:
        packages: the folder that the libraries are installed in.
        seed: decides which conditions are rewritten.
        share: how many of them, from 0 to 1.
        only: part of the names, as "einops/"; empty for all.
    """
    sys.path.insert(0, str(BENCHMARKS))
    import arms
    import census_libs
    import libs
    from seen import differences

    census_libs._prepare(packages)
    rewriter = Rewriter(random.Random(seed), share)
    for name, item in sorted(libs.items().items()):
        if only not in name:
            continue
        program = census_libs.Program(item)
        try:
            expected, fault = census_libs._steady(program)
        except Exception as error:
            fault = arms.last_line(error)
        if fault:
            yield f"{name}: not compared, as {fault}", []
            continue
        before = rewriter.branches
        rewriter.rewrite_loaded(f"{packages.resolve()}/")
        try:
            found = differences(expected.calls, arms.eager(program).calls)
        except Exception as error:
            found = [arms.last_line(error)]
        yield f"{name}: {rewriter.branches - before} branches rewritten, {len(found)} differ", found
