"""The census: one architecture that stock breaks and mending makes whole, and an interrupted run."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.processes import python

pytest.importorskip("transformers")

CENSUS = Path(__file__).parents[2] / "benchmarks" / "census.py"


def census(*arguments: str) -> CompletedProcess[str]:
    return python(str(CENSUS), *arguments)


@pytest.mark.slow
def test_one_architecture_and_a_second_run(tmp_path: Path) -> None:
    out, plot = tmp_path / "rows.jsonl", tmp_path / "chart.svg"
    arguments = ["--only", "led", "--mode", "eval", "--out", str(out), "--plot", str(plot)]
    first = census(*arguments)
    assert first.returncode == 0, first.stderr
    (row,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert row["status"] == "ok"
    assert row["stock"]["breaks"] > 0
    assert (row["mended"]["graphs"], row["mended"]["breaks"], row["mended"]["differs"]) == (
        1,
        0,
        [],
    )
    assert "made whole 1" in first.stdout
    assert "first call, broken before: median" in first.stdout
    assert row["mended"]["attempts"]
    assert not any(row["stock"]["attempts"])
    assert plot.read_text().startswith("<svg")

    second = census(*arguments)
    assert second.returncode == 0
    assert len(out.read_text().splitlines()) == 1
    assert "made whole 1" in second.stdout
