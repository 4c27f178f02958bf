"""The census of libraries: two items of a module of our own, an interrupted run, and the tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from libs import items
from libs_tally import by_library, causes, markdown

from tests.processes import python

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

ITEMS = """
import torch
from libs import Use, item, stepped


@item("torch")
def reads_its_largest() -> Use:
    def clamp(x):
        if x.max() > 0.5:
            x = x.clamp(max=0.5)
        return x * 2

    return Use("eval", clamp, lambda n: (torch.full((3,), 0.3 * n),))


@item("torch")
def draws_from_the_clock() -> Use:
    import time

    return Use("eval", lambda x: x + time.perf_counter(), lambda n: (torch.ones(2, dtype=torch.double),))


@item("torch")
def step() -> Use:
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    return stepped(model, optimizer, lambda net, x: net(x).mean(), lambda n: (torch.randn(2, 3),), clip=1.0)
"""


def census(tmp_path: Path, *arguments: str) -> tuple[str, int]:
    (tmp_path / "own_items.py").write_text(ITEMS)
    script = BENCHMARKS / "census_libs.py"
    out = tmp_path / "rows.jsonl"
    given = ["--modules", "own_items", "--out", str(out), *arguments]
    run = python(str(script), *given, env={"PYTHONPATH": f"{BENCHMARKS.parent}:{tmp_path}"})
    assert "Traceback" not in run.stderr, run.stderr
    return run.stdout, run.returncode


@pytest.mark.slow
def test_three_items_and_a_second_run(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    _, status = census(tmp_path)
    rows = {row["item"]: row for row in map(json.loads, out.read_text().splitlines())}
    assert status == 0
    assert set(rows) == {"reads_its_largest", "draws_from_the_clock", "step"}
    branch = rows["reads_its_largest"]
    assert branch["stock"]["breaks"] > 0
    assert (branch["mended"]["graphs"], branch["mended"]["breaks"]) == (1, 0)
    assert branch["mended"]["differs"] == branch["stock"]["differs"] == []
    assert branch["eager_rest"] > 0
    assert branch["mends"]
    assert rows["draws_from_the_clock"]["status"] == "did not run"
    assert "not deterministic" in rows["draws_from_the_clock"]["reason"]
    assert rows["step"]["kind"] == "step"
    assert rows["step"]["mended"]["differs"] == []

    before = out.read_text()
    text, _ = census(tmp_path)
    assert out.read_text() == before
    assert "did not run: torch/draws_from_the_clock" in text


def arm(**other: object) -> dict[str, object]:
    whole = {
        "graphs": 1,
        "breaks": 0,
        "skipped": 0,
        "later_breaks": 0,
        "later_skipped": 0,
        "later_graphs": 2,
    }
    quiet = {"error": "", "differs": [], "complaints": [], "causes": [], "later_causes": []}
    return {**whole, **quiet, "first": 1.0, "rest": 0.5, **other}


def row(item: str, stock: dict[str, object], mended: dict[str, object]) -> dict[str, object]:
    told = {"declines": [], "failed_checks": [], "mends": [], "eager_rest": 1.0, "status": "ok"}
    return {
        "library": "lib",
        "version": "1",
        "item": item,
        "stock": stock,
        "mended": mended,
        **told,
    }


def test_tables_count_what_rows_say() -> None:
    cause = ["Unsupported", "lib/a.py:3", "f(x | y)"]
    broken = arm(graphs=2, breaks=1, causes=[cause], first=2.0)
    rows = [
        row("a", broken, arm()),
        row("b", broken, broken),
        row("c", arm(), arm(differs=["call 1"])),
    ]
    _, (library, everything) = by_library(rows)
    assert library[1:] == everything[1:]
    counted = ["3 of 3", "1", "2", "1", "2", "6", "6", "3", "2", "1"]
    assert library == ["lib 1", *counted, "5.0", "0.80", "2.00", "2.00"]
    _, (line,) = causes(rows)
    assert line == ["1", "Unsupported", "no reason", "`f(x \\| y)` (lib/a.py:3)"]
    assert "| lib 1 | 3 of 3 |" in markdown(rows)


def test_what_the_program_raises_itself_is_told_as_such() -> None:
    raised = ["Observed exception", "lib/a.py:4", "raise ValueError()"]
    rows = [row("a", arm(), arm(graphs=0, skipped=1, causes=[raised]))]
    _, (line,) = causes(rows)
    assert line[1:3] == ["Observed exception", "the program raises it"]


def test_a_graph_that_compiles_later_or_is_never_used_is_not_whole() -> None:
    late, unused = row("a", arm(), arm(later_breaks=1)), row("b", arm(), arm())
    unused["failed_checks"] = ["a.py:3"]
    _, (library, _) = by_library([late, unused])
    assert library[2:6] == ["2", "1", "2", "0"]


def test_there_are_enough_items() -> None:
    found = items()
    assert len(found) >= 200
    assert len({item.library for item in found.values()}) >= 20
