"""Pictures of results: lives of programs, AIMNet2 in each arm, memory over hours. Needs matplotlib.

python benchmarks/pictures.py docs/results        # life_cost.svg, aimnet.svg, soak.svg
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from measuring import grouped, read_json

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "graphmend_bc"  # the same file for the same results
matplotlib.rcParams["svg.fonttype"] = "none"

from matplotlib import pyplot  # noqa: E402  (the backend is chosen first)
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

COLOURS = {"eager": "#7f7f7f", "stock": "#d95f02", "options": "#e6ab02"} | {
    "mended": "#1b9e77",
    "twin": "#7570b3",
}


def lives(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Calls against processor seconds, a panel for each program that is called more than once."""
    found = {n: arms for n, arms in found.items() if max(map(len, arms.values()), default=0) > 1}
    columns = 4
    rows = -(-len(found) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(3.2 * columns, 2.4 * rows), squeeze=False
    )
    for axis in axes.flat[len(found) :]:
        axis.axis("off")
    for axis, (name, arms) in zip(axes.flat, found.items(), strict=False):
        for arm, ends in arms.items():
            axis.plot(range(1, len(ends) + 1), ends, label=arm, color=COLOURS[arm])
        axis.set_title(name, fontsize=9)
        axis.tick_params(labelsize=7)
    axes.flat[0].legend(fontsize=8)
    figure.supxlabel("calls", fontsize=9)
    figure.supylabel("processor seconds of all calls so far", fontsize=9)
    figure.tight_layout()
    return figure


def aimnet(path: Path) -> Figure:
    """Speed, graphs and compile time of AIMNet2 in each arm, both sizes together."""
    values = grouped(read_json(path)[1])
    names = {"stock": "stock", "options": "stock with\nits options", "mended": "mended"}
    names |= {"twin": "fixed by\nits authors"}
    arms = [arm for arm in names if any(a == arm and m == "call" for _, m, a in values)]
    sizes = list(dict.fromkeys(size for size, _, _ in values))
    figure, axes = pyplot.subplots(1, 3, figsize=(9, 2.6))
    speeds = {a: [_speed(values, size, a) for size in sizes] for a in arms}
    _bars(axes[0], names, {a: statistics.mean(v) for a, v in speeds.items()}, "{:.2f}")
    axes[0].axhline(1, color=COLOURS["eager"], linewidth=1)
    axes[0].set_title("times as fast as eager Python", fontsize=9)
    last = sizes[-1]
    _bars(axes[1], names, {a: values[last, "graphs", a][0] for a in arms}, "{:.0f}")
    axes[1].set_title("graphs for two sizes of molecule", fontsize=9)
    first = {a: sum(values[size, "first call", a][0] for size in sizes) for a in arms}
    _bars(axes[2], names, first, "{:.0f}")
    axes[2].set_title("first calls, processor seconds", fontsize=9)
    figure.tight_layout()
    return figure


def _speed(values: Mapping[tuple[str, str, str], Sequence[float]], size: str, arm: str) -> float:
    pairs = zip(values[size, "call", "eager"], values[size, "call", arm], strict=True)
    return statistics.median(eager / this for eager, this in pairs)


def _bars(axis: Axes, names: Mapping[str, str], found: Mapping[str, float], form: str) -> None:
    bars = axis.bar(
        [names[arm] for arm in found], list(found.values()), color=[COLOURS[a] for a in found]
    )
    axis.bar_label(bars, [form.format(value) for value in found.values()], fontsize=8)
    axis.tick_params(labelsize=7)
    axis.margins(y=0.15)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def soaks(arms: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Memory of a process that serves calls: over time, and by the graphs that were compiled."""
    figure, axes = pyplot.subplots(1, 2, figsize=(8, 2.6), sharey=True)
    for arm, moments in arms.items():
        memory = [moment["resident"] / 2**20 for moment in moments]
        axes[0].plot([m["seconds"] / 60 for m in moments], memory, label=arm, color=COLOURS[arm])
        axes[1].plot([m["compilations"] for m in moments], memory, color=COLOURS[arm])
    axes[0].set_xlabel("minutes", fontsize=8)
    axes[1].set_xlabel("graphs compiled so far", fontsize=8)
    axes[0].set_ylabel("MiB in memory", fontsize=8)
    axes[0].set_ylim(bottom=0)
    axes[0].legend(fontsize=8)
    for axis in axes:
        axis.tick_params(labelsize=7)
    figure.tight_layout()
    return figure


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of results")
    folder: Path = parser.parse_args(argv).folder
    drawn = {}
    if (folder / "lives.json").exists():
        text = (folder / "lives.json").read_text(encoding="utf-8")
        drawn["life_cost.svg"] = lives(json.loads(text))
    if (folder / "aimnet.json").exists():
        drawn["aimnet.svg"] = aimnet(folder / "aimnet.json")
    served = {arm: folder / f"soak_{arm}.json" for arm in ("stock", "mended")}
    if all(path.exists() for path in served.values()):
        texts = {arm: path.read_text(encoding="utf-8") for arm, path in served.items()}
        drawn["soak.svg"] = soaks({arm: json.loads(t)["moments"] for arm, t in texts.items()})
    for name, figure in drawn.items():
        figure.savefig(folder / name, metadata={"Date": None})
    print(f"{folder}: {', '.join(drawn) or 'no results to draw'}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
