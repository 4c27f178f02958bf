"""Two files of results side by side."""

from __future__ import annotations

import json
from pathlib import Path

import compare
import pytest
from measuring import Sample, write_json

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def written(path: Path, **values: list[float]) -> Path:
    write_json(path, [Sample(name, "call", "mended", v) for name in values for v in values[name]])
    return path


def test_ratios_of_medians(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = written(tmp_path / "a.json", same=[1.0, 1.0], slower=[1.0, 2.0, 3.0], gone=[1.0])
    after = written(tmp_path / "b.json", same=[1.0, 1.0], slower=[2.0, 4.0, 6.0], new=[1.0])
    assert compare.main([str(before), str(after)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "slower | call | mended: 2 -> 4, 2.00 [2.00, 2.00]",
        "1 more differ by less than 5%.",
        "Only in the first: gone.",
        "Only in the second: new.",
    ]


def test_machines_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = written(tmp_path / "a.json", f=[1.0]), tmp_path / "b.json"
    known = json.loads(before.read_text())
    known["environment"]["torch"] = "9.9"
    after.write_text(json.dumps(known))
    assert compare.main([str(before), str(after), "--arm", "stock"]) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("-> 9.9")


@pytest.mark.parametrize("name", ["life_cost", "speed", "gpu"])
def test_committed_results_can_be_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(RESULTS / f"{name}.json")
    assert compare.main([path, path]) == 0
    assert "more differ by less than 5%" in capsys.readouterr().out


@pytest.mark.parametrize(
    "text", ["", "[]", '{"samples": 3}', '{"environment": {}, "samples": [{}]}']
)
def test_anything_else_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    assert compare.main([str(path), str(path)]) == 2
    assert "is no file of results" in capsys.readouterr().err
