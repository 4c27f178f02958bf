"""Tables of results: what they say of samples, and that the docs have those of committed results."""

from __future__ import annotations

from pathlib import Path

import pytest
import tables
from measuring import Sample, write_json

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"


def of(name: str, measure: str, **arms: float) -> list[Sample]:
    return [Sample(name, measure, arm, value) for arm, value in arms.items()]


def test_calls() -> None:
    samples = of("clamp", "call", eager=2e-5, stock=4e-5, mended=1e-5)
    samples += of("clamp", "call", eager=3e-5, stock=4e-5, mended=1e-5)
    samples += of("clamp", "runs", stock=2, mended=1) + of("clamp", "error", mended=1e-7)
    samples += of("clamp", "peak", eager=8, stock=8, mended=4) + of("clamp", "failed", twin=1)
    (_, _, row) = tables.calls(samples).splitlines()
    assert row == (
        "| clamp | 2 / - / 1 / - | 25 | 0.62 [0.50, 0.75] |  | 2.50 [2.00, 3.00] | an error"
        " | 1.00 / 0.50 | 1e-07 |"
    )


def test_losses_have_their_sign() -> None:
    samples = of("grows", "all calls", stock=1.0, mended=1.25)
    row = tables.life(samples).splitlines()[-1]
    assert "| 1.25 |" in row
    assert "| +0.25 |" in row


def test_blocks_are_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "growth.json", of("10 sites", "trace", stock=0.5, mended=0.1, twin=0.05))
    page = tmp_path / "page.md"
    page.write_text("Before.\n<!-- table: growth -->\nold\n<!-- end of table -->\nAfter.\n")
    assert tables.main([str(tmp_path), "--into", str(page)]) == 0
    text = page.read_text()
    assert "| 10 sites | 500 | 100 | 50 | 2.00 |" in text
    assert "old" not in text
    assert text.startswith("Before.\n")
    assert text.endswith("<!-- end of table -->\nAfter.\n")
    assert "| 10 sites |" in (tmp_path / "tables.md").read_text()
    page.write_text("<!-- table: life -->\n<!-- end of table -->\n")
    assert tables.main([str(tmp_path), "--into", str(page)]) == 2
    assert "no results for the table 'life'" in capsys.readouterr().err


def test_committed_tables_are_those_of_the_committed_results() -> None:
    made = tables.made(RESULTS)
    assert set(made) == set(tables.TABLES)
    assert (RESULTS / "tables.md").read_text(encoding="utf-8") == tables.document(made)
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert tables.filled(page, made) == page
