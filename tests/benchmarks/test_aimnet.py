"""The benchmark of AIMNet2: its table, and what it says if the model is not there."""

from __future__ import annotations

from pathlib import Path

import aimnet
import pytest
from measuring import Sample


def test_table_has_losses_and_errors() -> None:
    figures = {"graphs": 41, "breaks": 51, "first call": 48.2, "second process": 7.6}
    figures |= {"error": 9e-8, "differs": 0, "call": 2e-3}
    samples = [Sample("20 atoms", measure, "stock", value) for measure, value in figures.items()]
    samples += [Sample("20 atoms", "call", "eager", 1e-3), Sample("20 atoms", "failed", "twin", 1)]
    samples += [Sample("20 atoms", "failed", arm, 1) for arm in ("options", "mended")]
    rows = aimnet.markdown(samples).splitlines()[2:]
    assert rows[0] == (
        "| 20 | 0.2.0, stock | 41 | 51 | 0.50 [0.50, 0.50] | 48.2 | 7.6 | 9e-08 | 0 of 2 |"
    )
    assert rows[-1] == "| 20 | 0.2.5, fixed by hand | an error | | | | | | |"


def test_without_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert aimnet.main(["--package", str(tmp_path), "--fixed", str(tmp_path)]) == 2
    assert "make bench-aimnet" in capsys.readouterr().err
