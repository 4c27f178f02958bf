"""What the rows of a census say: verdicts, tables, a chart."""

from __future__ import annotations

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

FOLLOW_UPS = ("Attempt to trace generator", "Missing tp_iternext")
"""Break types that only follow from an earlier break."""

RAISED = "the program raises it"
_OWN = {"Observed exception": RAISED}
"""Break types that are no fault of the trace: nothing is declined there."""

Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file; none if it does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


BAD = ("wrong", "new error")


def verdict(row: Row) -> str:
    """What a row says of mending, in a word or two."""
    if row["status"] != "ok":
        return row["status"]
    stock, mended = row["stock"], row["mended"]
    if mended["error"] and mended["error"] != stock["error"]:
        return "new error"
    if mended["error"]:
        return "does not compile"
    if mended["differs"]:
        stock_again, mended_again = row.get("numpy_stream", (stock, mended))
        if not _as_stock(mended_again, stock_again):
            return "wrong"
        if stock_again["differs"] or not _as_stock(mended, stock):
            return "as wrong as stock" if _as_stock(mended, stock) else "wrong"
    if is_whole(stock):
        return "whole before"
    if row.get("failed_checks"):
        return "always misses"
    return "made whole" if is_whole(mended) else "still breaks"


def _as_stock(mended: Row, stock: Row) -> bool:
    """Whether stock differs likewise; a function left to stock later on does so from there on."""
    one, other = ({text.partition(": ")[2] for text in arm["differs"]} for arm in (mended, stock))
    return one <= other


def is_whole(arm: Row) -> bool:
    """Whether everything was one graph."""
    return not arm["error"] and (arm["graphs"], arm["breaks"], arm["skipped"]) == (1, 0, 0)


def summary(rows: Iterable[Row]) -> str:
    """Tables of all rows, a section for each release and mode."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["transformers"], row["mode"]].append(row)
    return "\n\n".join(_section(*key, groups[key]) for key in sorted(groups))


def _section(release: str, mode: str, rows: list[Row]) -> str:
    verdicts = Counter(map(verdict, rows))
    ran = [row for row in rows if row["status"] == "ok"]
    broken = [row for row in ran if not is_whole(row["stock"])]
    whole = sum(is_whole(row["mended"]) and not row.get("failed_checks") for row in broken)
    strategies = Counter(mend["strategy"] for row in ran for mend in row["mends"])
    lines = [
        f"transformers {release}, {mode}: {len(ran)} of {len(rows)} architectures ran",
        f"  whole before {len(ran) - len(broken)}, broken {len(broken)}, made whole {whole}",
        f"  breaks before {_breaks(ran, 'stock')}, after {_breaks(ran, 'mended')}",
        f"  mends: {', '.join(f'{name} {count}' for name, count in strategies.most_common())}",
        *(f"  {count:4}  {name}" for name, count in verdicts.most_common()),
        *_first_calls("broken before", broken),
        *_first_calls("whole before", [row for row in ran if is_whole(row["stock"])]),
    ]
    for row in rows:
        if verdict(row) in BAD:
            mended = row["mended"]
            lines.append(f"  !! {row['model']}: {mended['error'] or mended['differs'][0]}")
    for row in ran:
        for text in row["mended"].get("complaints", ()):
            lines.append(f"  ?? {row['model']}: {text[:160]}")
    for name in ("stock", "mended"):
        lines += ["", f"  causes of breaks, {name} (models)", *_ranked(ran, name, by_place=False)]
        lines += ["", f"  places of breaks, {name} (models)", *_ranked(ran, name, by_place=True)]
    return "\n".join(lines)


def markdown(rows: Iterable[Row]) -> str:
    """Two tables, a row for each release and mode: what became whole, and what first calls cost."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["status"] == "ok":
            groups[f"transformers {row['transformers']}", row["mode"]].append(row)
    whole = ["| | ran | whole: stock | mended | breaks: stock | mended | wrong, and stock is not |"]
    whole.append("|---|---|---|---|---|---|---|")
    costs = [
        "| first call, mended / stock | models | median | nine in ten below | worst | seconds "
    ]
    costs[0] += "in all | attempts: median, nine in ten below, worst |"
    costs.append("|---|---|---|---|---|---|---|")
    for (release, mode), ran in sorted(groups.items()):
        stock = sum(is_whole(row["stock"]) for row in ran)
        mended = sum(is_whole(row["mended"]) and not row.get("failed_checks") for row in ran)
        wrong = sum(verdict(row) in BAD for row in ran)
        breaks = f"{_breaks(ran, 'stock')} | {_breaks(ran, 'mended')}"
        whole.append(
            f"| {release}, {mode} | {len(ran)} | {stock} | {mended} | {breaks} | {wrong} |"
        )
        for name, is_one in (("broken under stock", False), ("whole under stock", True)):
            chosen = [row for row in ran if is_whole(row["stock"]) is is_one]
            if chosen:
                costs.append(f"| {mode}, {name} | {len(chosen)} | {_costs(chosen)} |")
    return "\n".join([*whole, "", *costs]) + "\n"


def _costs(rows: Sequence[Row]) -> str:
    pairs = [(row["stock"]["seconds"][0], row["mended"]["seconds"][0]) for row in rows]
    stock, mended = map(sum, zip(*pairs, strict=True))
    ratios = _three([mended / max(stock, 1e-9) for stock, mended in pairs], ".2f", " | ")
    attempts = [1 + sum(row["mended"].get("attempts", ())) for row in rows]
    return f"{ratios} | {stock:.1f} -> {mended:.1f} | {_three(attempts, '.0f', ', ')}"


def _three(values: Sequence[float], form: str, between: str) -> str:
    """Median, what nine in ten are below, and the largest."""
    ordered = sorted(values)
    middle, ninth = statistics.median(ordered), ordered[int(0.9 * (len(ordered) - 1))]
    return between.join(format(value, form) for value in (middle, ninth, ordered[-1]))


def _breaks(rows: Iterable[Row], arm: str) -> int:
    return sum(row[arm]["breaks"] for row in rows)


def _first_calls(name: str, rows: Sequence[Row]) -> list[str]:
    """What the first calls cost, mended to stock, and the attempts that they took."""
    pairs = [(row["stock"]["seconds"][0], row["mended"]["seconds"][0]) for row in rows]
    if not pairs:
        return []
    stock, mended = map(sum, zip(*pairs, strict=True))
    ratios = _spread([mended / max(stock, 1e-9) for stock, mended in pairs], ".2f")
    lines = [f"  first call, {name}: {ratios} of stock's; {stock:.1f} s -> {mended:.1f} s in all"]
    if attempts := [
        1 + sum(row["mended"]["attempts"]) for row in rows if "attempts" in row["mended"]
    ]:
        lines.append(f"  attempts at all frames of it: {_spread(attempts, '.0f')}")
    return lines


def _spread(values: Sequence[float], form: str) -> str:
    middle, ninth, worst = _three(values, form, " ").split()
    return f"median {middle}, nine in ten below {ninth}, worst {worst}"


def why(declined: Mapping[str, str], kind: str, place: str) -> str:
    """Why a break was left.

    Args:
        declined: the reason codes, by place.
        kind: the break's type.
        place: where it is.
    """
    return declined.get(place) or _OWN.get(kind, "no reason")


def _ranked(rows: Iterable[Row], arm: str, by_place: bool, most: int = 60) -> list[str]:
    """Causes by how many models have them; the same source in several files is one cause."""
    models: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for row in rows:
        declined = {d["at"]: d["reason"] for d in row.get("declines", ())}
        for kind, place, source in row[arm]["causes"]:
            if not kind.startswith(FOLLOW_UPS):
                reason = why(declined, kind, place) if arm == "mended" else ""
                key = kind, reason, source if by_place else ""
                models[key].setdefault(row["model"], place)
    ranked = sorted(models.items(), key=lambda item: -len(item[1]))
    lines = []
    for (kind, reason, source), places in ranked[:most]:
        lines.append(
            f"  {len(places):4}  {kind[:60]:60} {reason:22} {', '.join(sorted(places))[:60]}"
        )
        if by_place:
            lines.append(f"        {next(iter(places.values()))}: {source[:100]}")
    return lines


# The chart

COLOURS = {
    "whole before": "#9ecae1",
    "made whole": "#31a354",
    "still breaks": "#fdae6b",
    "wrong": "#de2d26",
}
WIDTH, HEIGHT, LEFT = 640, 26, 150


def chart(rows: Iterable[Row]) -> str:
    """An SVG with a bar for each release and mode: how many architectures became what."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["status"] == "ok":
            name = verdict(row)
            name = "wrong" if name in BAD else name if name in COLOURS else "still breaks"
            counts[f"{row['transformers']} {row['mode']}"][name] += 1
    shapes = [_legend(), *(_bar(*item) for item in enumerate(sorted(counts.items()), 1))]
    size = f'width="{LEFT + WIDTH + 20}" height="{HEIGHT * (len(counts) + 2)}"'
    style = 'font-family="sans-serif" font-size="12"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>', *shapes, "</svg>"]
    )


def _legend() -> str:
    parts = []
    for number, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + number * 130
        parts.append(f'<rect x="{x}" y="6" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="16">{name}</text>')
    return "\n".join(parts)


def _bar(number: int, item: tuple[str, Counter[str]]) -> str:
    label, counts = item
    y, x = number * HEIGHT + 6, float(LEFT)
    parts = [f'<text x="6" y="{y + 14}">{label}</text>']
    for name, colour in COLOURS.items():
        width = counts[name] * WIDTH / counts.total()
        if width:
            box = f'x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT - 6}"'
            parts.append(f'<rect {box} fill="{colour}"/>')
            parts.append(f'<text x="{x + 4:.1f}" y="{y + 14}">{counts[name]}</text>')
        x += width
    return "\n".join(parts)
