"""The tables and pictures of the documentation, made from files of results.

    python benchmarks/tables.py docs/results                            # writes tables.md there
    python benchmarks/tables.py docs/results --into docs/performance.md # and its blocks anew

A block of a page begins with `<!-- table: NAME -->` and ends with `<!-- end of table -->`. A folder
may lack some files; their tables are left out.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import aimnet
import libs_tally
import tally
from measuring import Key, Sample, grouped, read_json

Values = Mapping[Key, Sequence[float]]
ARMS = ("stock", "options", "mended", "twin")
NAMES = {"twin": "by hand", "options": "stock with options"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        file: name of the file of results that it is made from.
        make: makes it, as Markdown, from that file.
        says: what it shows, in a sentence or two.
    """

    file: str
    make: Callable[[Path], str]
    says: str


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _subjects(values: Values, measure: str) -> list[str]:
    return list(dict.fromkeys(name for name, what, _ in values if what == measure))


def _ratio(values: Values, name: str, measure: str, over: str, under: str) -> str:
    """The median of one arm over another, round by round, with the extremes of the rounds."""
    pairs = zip(
        values.get((name, measure, over), ()), values.get((name, measure, under), ()), strict=False
    )
    ratios = sorted(above / below for above, below in pairs)
    if not ratios:
        return ""
    middle = f"{statistics.median(ratios):.2f}"
    return middle if len(ratios) == 1 else f"{middle} [{ratios[0]:.2f}, {ratios[-1]:.2f}]"


def _median(values: Values, name: str, measure: str, arm: str, form: str, scale: float = 1) -> str:
    found = values.get((name, measure, arm))
    return format(statistics.median(found) * scale, form) if found else ""


def _of_arms(values: Values, name: str, measure: str, arms: Sequence[str]) -> str:
    return " / ".join(_median(values, name, measure, arm, ".0f") or "-" for arm in arms)


def _failed(values: Values, name: str, prefix: str, arm: str) -> bool:
    return (name, f"{prefix}failed", arm) in values


def calls(samples: Sequence[Sample], prefix: str = "") -> str:
    """Calls at rest, of `speed.py`."""
    values = grouped(samples)
    heads = ["program", "graphs run: stock / with options / mended / by hand", "eager, us a call"]
    heads += [f"eager / {NAMES.get(arm, arm)}" for arm in ARMS]
    heads += ["peak: stock / mended, of eager's", "off by, at most"]
    rows = []
    for name in _subjects(values, f"{prefix}call"):
        ratios = [
            "an error"
            if _failed(values, name, prefix, arm)
            else _ratio(values, name, f"{prefix}call", "eager", arm)
            for arm in ARMS
        ]
        errors = [v for arm in ARMS for v in values.get((name, f"{prefix}error", arm), ())]
        runs = _of_arms(values, name, f"{prefix}runs", ARMS)
        eager = _median(values, name, f"{prefix}call", "eager", ".0f", 1e6)
        peaks = [_ratio(values, name, f"{prefix}peak", a, "eager") for a in ("stock", "mended")]
        rows.append([name, runs, eager, *ratios, " / ".join(peaks), f"{max(errors):.0e}"])
    return rows_of(heads, rows)


def training(samples: Sequence[Sample]) -> str:
    """Training steps at rest, of `speed.py`."""
    return calls(samples, "training: ")


def first_calls(samples: Sequence[Sample]) -> str:
    """First calls, cold and warm, of `speed.py`; those of training steps as well."""
    values = grouped(samples)
    heads = ["program", "graphs: stock / mended / by hand", "stock, s", "mended / stock"]
    heads += ["mended / by hand", "second process: stock, s", "mended / stock", "mended / by hand"]
    heads += ["trace: mended / stock", "mended / by hand"]
    rows = []
    for prefix in ("", "training: "):
        for name in _subjects(values, f"{prefix}first call"):
            arms = ("stock", "mended", "twin")
            cells = [_of_arms(values, name, f"{prefix}graphs", arms)]
            for what in ("first call", "second process"):
                measure = f"{prefix}{what}"
                cells.append(_median(values, name, measure, "stock", ".2f"))
                cells += [_ratio(values, name, measure, "mended", a) for a in ("stock", "twin")]
            measure = f"{prefix}trace"
            cells += [_ratio(values, name, measure, "mended", a) for a in ("stock", "twin")]
            rows.append([f"{name}{', training' if prefix else ''}", *cells])
    return rows_of(heads, rows)


def misses(samples: Sequence[Sample]) -> str:
    """Calls whose check fails, of `speed.py`."""
    values = grouped(samples)
    heads = ["program", "eager, us a call", "mended / eager"]
    rows = [
        [
            name,
            _median(values, name, "miss", "eager", ".0f", 1e6),
            _ratio(values, name, "miss", "mended", "eager"),
        ]
        for name in _subjects(values, "miss")
    ]
    return rows_of(heads, rows)


_REST = "at rest, Inductor"


def life(samples: Sequence[Sample]) -> str:
    """Programs over their lives, of `life_cost.py`."""
    values = grouped(samples)
    heads = ["program", "stock: first call, s", "all calls, s", "at rest, us"]
    heads += ["mended / stock: first call", "all calls", "at rest", "seconds more"]
    heads += ["compilations: stock / mended", "after call 3", "failed checks"]
    if has_rest := bool(_subjects(values, _REST)):
        heads += [f"{_REST}: stock, us", "mended / stock"]
    rows = []
    for name in _subjects(values, "all calls"):
        cells = [
            _median(values, name, what, "stock", ".2f") for what in ("first call", "all calls")
        ]
        cells.append(_median(values, name, "at rest", "stock", ".0f", 1e6))
        for what in ("first call", "all calls", "at rest"):
            cells.append(_ratio(values, name, what, "mended", "stock"))
        both = (statistics.median(values[name, "all calls", arm]) for arm in ("mended", "stock"))
        mended, stock = both
        cells.append(f"{mended - stock:+.2f}")
        for what in ("compilations", "late compilations"):
            cells.append(_of_arms(values, name, what, ("stock", "mended")))
        cells.append(_median(values, name, "failed checks", "mended", ".0f"))
        if has_rest:
            cells.append(_median(values, name, _REST, "stock", ".0f", 1e6))
            cells.append(_ratio(values, name, _REST, "mended", "stock"))
        rows.append([name, *cells])
    return rows_of(heads, rows)


def effects(samples: Sequence[Sample]) -> str:
    """Deferred calls, of `effects.py`."""
    values = grouped(samples)
    heads = ["", "graphs: stock / mended", "stock / deleted, wall", "processor"]
    heads += ["mended / deleted, wall", "processor", "transfers a call, mended"]
    rows = []
    for name in _subjects(values, "wall"):
        cells = [_of_arms(values, name, "graphs", ("stock", "mended"))]
        for arm in ("stock", "mended"):
            for clock in ("wall", "processor"):
                cells.append(_ratio(values, name, clock, arm, "deleted"))
        rows.append([name, *cells, _median(values, name, "transfers", "mended", ".0f")])
    return rows_of(heads, rows)


def growth(samples: Sequence[Sample]) -> str:
    """Trace time by size, of `growth.py`."""
    values = grouped(samples)
    heads = ["", "stock, ms", "mended, ms", "by hand, ms", "mended / by hand"]
    rows = [
        [
            name,
            *(_median(values, name, "trace", a, ",.0f", 1e3) for a in ("stock", "mended", "twin")),
            _ratio(values, name, "trace", "mended", "twin"),
        ]
        for name in _subjects(values, "trace")
    ]
    return rows_of(heads, rows)


def hooks(samples: Sequence[Sample]) -> str:
    """Calls beside the frame hooks, of `frame_hooks.py`."""
    values = grouped(samples)
    heads = ["pure Python calls", "million a second", "slower by"]
    measure = "Python calls a second"
    names = _subjects(values, measure)
    best = values[names[0], measure, "mended"][0]
    rows = []
    for name in names:
        rate = values[name, measure, "mended"][0]
        rows.append([name, f"{rate / 1e6:.1f}", f"{best / rate:.2f}"])
    compiled = ["calls of a compiled function", "us", "to torch.compile's wrapper"]
    ways = []
    for backend in _subjects(values, "call"):
        arms = [arm for name, what, arm in values if (name, what) == (backend, "call")]
        first = values[backend, "call", arms[0]][0]
        for arm in arms:
            seconds = values[backend, "call", arm][0]
            ways.append([f"{arm}, {backend}", f"{seconds * 1e6:.2f}", f"{seconds / first:.2f}"])
    return f"{rows_of(heads, rows)}\n{rows_of(compiled, ways)}"


def _of(make: Callable[[Sequence[Sample]], str]) -> Callable[[Path], str]:
    """A table of a file of samples, with what they were measured on."""

    def of_file(path: Path) -> str:
        environment, samples = read_json(path)
        on = ", ".join(f"{key} {value}" for key, value in environment.items())
        return f"{make(samples)}\nMeasured on {on}.\n"

    return of_file


def _census(path: Path) -> str:
    """What a census of transformers has counted, of `census.py`."""
    return tally.markdown(tally.read(path))


TABLES = {
    "calls": Table("speed.json", _of(calls), "A call that compiles nothing, inference."),
    "training": Table("speed.json", _of(training), "A training step that compiles nothing."),
    "first calls": Table("speed.json", _of(first_calls), "What the first call costs."),
    "misses": Table("speed.json", _of(misses), "A call whose check fails."),
    "life": Table("life_cost.json", _of(life), "All calls of a program, compile time included."),
    "effects": Table("effects.json", _of(effects), "Programs that log, beside the same without."),
    "growth": Table("growth.json", _of(growth), "Trace time by size."),
    "hooks": Table("frame_hooks.json", _of(hooks), "Pure Python beside the frame hooks."),
    "aimnet": Table("aimnet.json", _of(aimnet.markdown), "AIMNet2, energy and forces."),
    "census": Table("census_sample.jsonl", _census, "A sample of transformers."),
    "census of transformers 5": Table(
        "census_transformers5.jsonl", _census, "A sample of transformers 5."
    ),
    "libraries": Table(
        "census_libs.jsonl",
        lambda path: libs_tally.markdown(tally.read(path)),
        "Uses of other libraries.",
    ),
}
"""By name, as blocks call them."""


def made(folder: Path) -> dict[str, str]:
    """All tables for which a folder has results.

    Raises:
        ValueError: a file is no file of results.
    """
    there = {name: table for name, table in TABLES.items() if (folder / table.file).exists()}
    return {name: table.make(folder / table.file) for name, table in there.items()}


def document(tables: Mapping[str, str]) -> str:
    """One page with all tables."""
    parts = [f"## {TABLES[name].says}\n\n{text}" for name, text in tables.items()]
    return "# Results\n\n" + "\n".join(parts)


_BLOCK = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def filled(page: str, tables: Mapping[str, str]) -> str:
    """A page with its blocks made anew.

    Raises:
        KeyError: a block has no table.
    """
    return _BLOCK.sub(lambda found: f"{found[1]}{tables[found[2]]}{found[3]}", page)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of results")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="page whose blocks to make anew")
    args = parser.parse_args(argv)
    try:
        tables = made(args.folder)
        page = filled(args.into.read_text(encoding="utf-8"), tables) if args.into else ""
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyError as missing:
        print(f"{args.folder} has no results for the table {missing}.", file=sys.stderr)
        return 2
    (args.folder / "tables.md").write_text(document(tables), encoding="utf-8")
    if args.into:
        args.into.write_text(page, encoding="utf-8")
    print(f"{args.folder / 'tables.md'}: {len(tables)} tables", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
