"""The tables of the GPU benchmark."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from measuring import Key, Sample, grouped, read_json

_Values = Mapping[Key, Sequence[float]]


def markdown(
    environment: Mapping[str, str], samples: Sequence[Sample], left_out: Sequence[str] = ()
) -> str:
    """What was measured, as tables: times for each mode, then counts, then single strategies.

    Args:
        environment: what it was measured on.
        samples: as `gpu.py` writes them.
        left_out: programs for which no time was left.

    Returns:
        Markdown.
    """
    values = grouped(samples)
    on = ", ".join(f"{name} {value}" for name, value in environment.items())
    parts = [f"Measured on: {on}."]
    for mode in ("default", "reduce-overhead"):
        parts += _section(f"Mode {mode}", _times(values, mode), _counts(values, mode))
    parts += _section("One strategy for branches alone", _alone(values))
    parts += _section("Mended and by hand in turns, mode default", _turns(values))
    if left_out:
        parts.append(f"No time was left for: {', '.join(left_out)}.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(title: str, *tables: str) -> list[str]:
    """A heading and what stands below it; nothing if there are no rows."""
    return [f"## {title}", *tables] if any(tables) else []


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else ""


def _programs(values: _Values) -> list[str]:
    return list(dict.fromkeys(name for name, _, _ in values))


def _times(values: _Values, mode: str) -> str:
    arms = ("stock", "mended", "twin")
    heads = ["program", "eager, us a call"]
    heads += ["eager / stock", "eager / mended", "eager / by hand"]
    heads += ["first call: stock, s", "mended", "by hand", "off by: stock", "mended"]
    heads += ["not bit for bit: eager again / stock / mended"]
    rows = []
    for name in _programs(values):
        besides = values.get((name, f"{mode}: eager beside", "stock"))
        if besides is None:
            continue
        eager = statistics.median(besides)
        ratios = [_speedup(values, name, arm, mode) for arm in arms]
        first = [_text(_one(values, name, arm, f"{mode}: first call"), ".1f") for arm in arms]
        errors = [_text(_one(values, name, arm, f"{mode}: error"), ".0e") for arm in arms[:2]]
        differing = " / ".join(
            _text(_one(values, name, arm, "default: differs"), ".0f")
            for arm in ("eager", "stock", "mended")
        )
        rows.append([name, f"{eager * 1e6:.0f}", *ratios, *first, *errors, differing])
    return _table(heads, rows)


def _turns(values: _Values) -> str:
    """Blocks of calls of two arms that took turns; empty if none did."""
    measure = "default: call in turns"
    heads = ["program", "mended, us a call", "by hand, us a call", "mended / by hand"]
    rows = []
    for name in dict.fromkeys(name for name, what, _ in values if what == measure):
        both = [values[name, measure, arm] for arm in ("mended", "twin")]
        times = [_span([seconds * 1e6 for seconds in arm], ".0f") for arm in both]
        ratios = [mended / twin for mended, twin in zip(*both, strict=True)]
        rows.append([name, *times, _span(ratios, ".2f")])
    return _table(heads, rows)


def _speedup(values: _Values, name: str, arm: str, mode: str) -> str:
    if (name, f"{mode}: failed", arm) in values:
        return "an error"
    besides = values.get((name, f"{mode}: eager beside", arm), ())
    if not besides:
        return "-"
    pairs = zip(besides, values[name, f"{mode}: call", arm], strict=True)
    return _span([eager / call for eager, call in pairs], ".2f")


def _span(values: Sequence[float], form: str) -> str:
    """The median, with the extremes."""
    return f"{statistics.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


def _counts(values: _Values, mode: str) -> str:
    measures = ["graphs", "launches", "graph launches", "waits", "to host", "on device", "skips"]
    measures += ["re-recordings", "busy us"]
    heads = ["program", *(f"{m.replace('busy us', 'GPU busy, us')}" for m in measures)]
    rows = []
    for name in _programs(values):
        cells = [_of_arms(values, name, f"{mode}: {measure}") for measure in measures]
        if any(cells):
            rows.append([name, *cells])
    table = _table(heads, rows)
    return f"Of a call: stock / mended / by hand.\n\n{table}" if table else ""


def _of_arms(values: _Values, name: str, measure: str) -> str:
    found = [_one(values, name, arm, measure) for arm in ("stock", "mended", "twin")]
    if all(value is None for value in found):
        return ""
    return " / ".join(_text(value, ".3g") for value in found)


def _alone(values: _Values) -> str:
    arms = ("stock", "where alone", "cond alone", "speculate alone", "twin")
    heads = ["program", "mode", *(f"eager / {arm}" for arm in arms)]
    heads += ["graph launches", "launches", "skips"]
    rows = []
    for name in _programs(values):
        for mode in ("default", "reduce-overhead"):
            if (name, f"{mode}: call", "cond alone") not in values:
                continue
            cells = [_speedup(values, name, arm, mode) for arm in arms]
            counts = [
                " / ".join(_text(_one(values, name, arm, f"{mode}: {m}"), ".3g") for arm in arms)
                for m in ("graph launches", "launches", "skips")
            ]
            rows.append([name, mode, *cells, *counts])
    return _table(heads, rows)


def _one(values: _Values, name: str, arm: str, measure: str) -> float | None:
    found = values.get((name, measure, arm))
    return found[0] if found else None


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> None:
    """Print the tables of a file of results: `python benchmarks/gpu_tables.py gpu.json`."""
    print(markdown(*read_json(Path(sys.argv[1]))), end="")


if __name__ == "__main__":
    main()
