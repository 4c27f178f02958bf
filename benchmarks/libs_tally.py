"""What the rows of the census of libraries say: by library, and what is still in the way."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from tally import BAD, FOLLOW_UPS, is_whole, verdict, why

Row = dict[str, Any]
Cells = list[str]
ARMS = ("stock", "mended")


def is_always_whole(arm: Row) -> bool:
    """Whether each call was one graph, the later ones as well."""
    return is_whole(arm) and not arm["later_breaks"] and not arm["later_skipped"]


def _uses(row: Row) -> bool:
    """Whether some call could use the mended graph."""
    return not row["failed_checks"]


def by_library(rows: Iterable[Row]) -> tuple[Cells, list[Cells]]:
    """Heads and rows of the table of libraries; the last row is of all."""
    heads = ["library", "ran", "whole at first: stock", "mended", "in all calls: stock", "mended"]
    heads += ["graphs compiled later: stock", "mended"]
    heads += ["as eager: stock", "mended", "wrong, and stock is not", "first call: stock, s"]
    heads += ["mended / stock", "at rest, eager / stock", "eager / mended"]
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["library"]].append(row)
    table = [_of_library(_named(groups[name]), groups[name]) for name in sorted(groups)]
    return heads, [*table, _of_library("all", [row for group in groups.values() for row in group])]


def _named(rows: Sequence[Row]) -> str:
    """A library and its version, which rows without a result do not have."""
    versions = sorted({row["version"] for row in rows if "version" in row})
    return " ".join([rows[0]["library"], *versions])


def _of_library(name: str, rows: Sequence[Row]) -> Cells:
    ran = [row for row in rows if row["status"] == "ok"]
    cells = [name, f"{len(ran)} of {len(rows)}"]
    for test in (is_whole, is_always_whole):
        cells.append(str(sum(test(row["stock"]) for row in ran)))
        cells.append(str(sum(test(row["mended"]) and _uses(row) for row in ran)))
    cells += [str(sum(row[arm]["later_graphs"] for row in ran)) for arm in ARMS]
    for arm in ARMS:
        cells.append(str(sum(not row[arm]["differs"] and not row[arm]["error"] for row in ran)))
    cells.append(str(sum(verdict(row) in BAD for row in ran)))
    stock, mended = (sum(row[arm]["first"] for row in ran) for arm in ARMS)
    cells += [f"{stock:.1f}", f"{mended / stock:.2f}" if stock else ""]
    return [*cells, *(_speed(ran, arm) for arm in ARMS)]


def _speed(rows: Sequence[Row], arm: str) -> str:
    """The median of eager's time of a call at rest over the arm's."""
    ratios = [row["eager_rest"] / row[arm]["rest"] for row in rows if row[arm]["rest"]]
    return f"{statistics.median(ratios):.2f}" if ratios else ""


def causes(rows: Iterable[Row]) -> tuple[Cells, list[Cells]]:
    """Heads and rows of the table of what still breaks mended items, the most frequent first."""
    heads = ["items", "what breaks the graph", "declined because", "for example"]
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row["status"] != "ok":
            continue
        declined = {decline["at"]: decline["reason"] for decline in row["declines"]}
        mended = row["mended"]
        for kind, place, source in [*mended["causes"], *mended["later_causes"]]:
            if not kind.startswith(FOLLOW_UPS):
                example = f"`{source[:80].replace('|', chr(92) + '|')}` ({place})"
                key = kind[:80], why(declined, kind, place)
                found[key].setdefault(f"{row['library']}/{row['item']}", example)
    ranked = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    return heads, [
        [str(len(examples)), kind, reason, next(iter(examples.values()))]
        for (kind, reason), examples in ranked
    ]


def summary(rows: Sequence[Row]) -> str:
    """All tables as text, and every item that is not whole and exact."""
    parts = [_text(*by_library(rows)), _text(*causes(rows))]
    return "\n\n".join([*parts, "\n".join(filter(None, map(_trouble, rows)))])


def _text(heads: Cells, table: Sequence[Cells]) -> str:
    """A table in columns; the heads stand above, one a line, as they are long."""
    widths = [max(map(len, column), default=0) for column in zip(*table, strict=True)]
    lines = [f"{number}: {head}" for number, head in enumerate(heads, 1)]
    for row in table:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _trouble(row: Row) -> str:
    """What to know of an item in a line; nothing if it is whole and exact."""
    name, said = f"{row['library']}/{row['item']}", verdict(row)
    if row["status"] != "ok":
        return f"  {said}: {name}: {row['reason'][:200]}"
    mended = row["mended"]
    if said in BAD or mended["differs"] or mended["error"]:
        return f"  {said}: {name}: {mended['error'] or mended['differs'][0]}"
    told = f": {mended['complaints'][0][:160]}" if mended["complaints"] else ""
    return f"  {said}: {name}{told}" if told or not is_always_whole(mended) else ""


def markdown(rows: Sequence[Row], most: int = 12) -> str:
    """The tables for a page, with the most frequent causes, and what they were measured on."""
    from tables import rows_of

    heads, table = causes(rows)
    commits = ", ".join(sorted({row["commit"] for row in rows if "commit" in row}))
    where = next((row for row in rows if "torch" in row), {})
    on = ", ".join(f"{name} {where.get(name, '')}" for name in ("python", "torch"))
    parts = [rows_of(*by_library(rows)), rows_of(heads, table[:most]) if table else ""]
    return "\n".join([*parts, f"Measured on {on}, commit {commits}.\n"])
