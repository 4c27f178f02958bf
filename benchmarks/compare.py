"""Compares two files of results, as the benchmarks of this folder write them, by ratio.

    python benchmarks/compare.py before.json after.json [--arm mended] [--least 0.05]

A line for each program and measure: the medians, and the second over the first with the ratios of
the quartiles. Lines whose ratio differs from 1 by less than `--least` are counted and left out.
What only one of the files has is named. A ratio of times from two machines says little: the
environments are printed first where they differ.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from measuring import Key, grouped, quartiles, read_json


@dataclass(frozen=True, slots=True)
class Results:
    """One file.

    Attributes:
        environment: what it was measured on.
        values: the samples, by program, measure and arm.
    """

    environment: Mapping[str, str]
    values: Mapping[Key, Sequence[float]]


def read(path: Path) -> Results:
    """Read a file of results.

    Args:
        path: of a file with "environment" and "samples".

    Raises:
        ValueError: it is none.
    """
    environment, samples = read_json(path)
    return Results(environment, grouped(samples))


def lines_of(before: Results, after: Results, arm: str | None, least: float) -> list[str]:
    """What is printed.

    Args:
        before, after: the files.
        arm: only this arm; None for all.
        least: how much a ratio must differ from 1 to be listed.
    """
    found = [
        f"{name}: {before.environment.get(name, '-')} -> {after.environment.get(name, '-')}"
        for name in sorted({*before.environment, *after.environment})
        if before.environment.get(name) != after.environment.get(name)
    ]
    left_out = 0
    for key in (key for key in before.values if arm in (None, key[2])):
        if key not in after.values:
            continue
        ratios = _ratios(before.values[key], after.values[key])
        if ratios is None or abs(ratios[1] - 1) < least:
            left_out += 1
            continue
        low, middle, high = ratios
        medians = [quartiles(list(side.values[key]))[1] for side in (before, after)]
        shown = f"{medians[0]:.4g} -> {medians[1]:.4g}"
        found.append(f"{' | '.join(key)}: {shown}, {middle:.2f} [{low:.2f}, {high:.2f}]")
    found.append(f"{left_out} more differ by less than {least:.0%}.")
    for name, only in (("first", _only(before, after)), ("second", _only(after, before))):
        if only:
            found.append(f"Only in the {name}: {', '.join(only)}.")
    return found


def _ratios(before: Sequence[float], after: Sequence[float]) -> tuple[float, float, float] | None:
    """Of the quartiles and the median; None where one is zero and they are equal."""
    pairs = list(zip(quartiles(before), quartiles(after), strict=True))
    if all(one == other for one, other in pairs):
        return None
    low, middle, high = (other / one if one else float("inf") for one, other in pairs)
    return min(low, high), middle, max(low, high)


def _only(one: Results, other: Results) -> list[str]:
    return sorted({key[0] for key in one.values} - {key[0] for key in other.values})


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--arm", help="only this arm, such as mended")
    parser.add_argument("--least", type=float, default=0.05, help="smallest difference (0.05)")
    args = parser.parse_args(argv)
    try:
        lines = lines_of(read(args.before), read(args.after), args.arm, args.least)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
