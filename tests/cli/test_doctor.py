"""``python -m graphmend_bc doctor`` says of each seam whether it is there, reached and of use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import graphmend_bc as gm
from graphmend_bc.canary import check
from graphmend_bc.canary.program import Program
from graphmend_bc.cli import main
from graphmend_bc.dynamo.patches.capabilities import ESSENTIAL
from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.engine.decisions.entry_files import EntryFiles
from tests.patches.test_installer import REMOVED, is_of_all_variables, removed

RESET = "_dynamo.reset (installer.resetting)"
BRANCH = "convert_frame.compile_frame (installer.compiling)"


@pytest.fixture(autouse=True)
def off() -> None:
    gm.disable()


def of_doctor(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Its exit status and what it prints."""
    status = 0
    try:
        main.main(["doctor", "--json"])
    except SystemExit as end:
        status = int(end.code or 0)
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("seam", REMOVED, ids=lambda seam: seam.label)
def test_what_is_missing_is_told(
    seam: Seam, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if is_of_all_variables(seam):
        pytest.skip("It is inherited from what all variables have, so no torch lacks it.")
    monkeypatch.setattr(check, "PROGRAMS", {})
    with removed(seam):
        status, said = of_doctor(capsys)
    assert status == 1
    (sentence,) = [text for text in said["trouble"] if text.startswith(f"{seam.label} ")]
    off = "nothing can be mended exactly" if seam.needed_by == ESSENTIAL else "cannot be used"
    assert "is not there in this torch" in sentence
    assert off in sentence
    assert all(name in sentence for name in seam.needed_by if seam.needed_by != ESSENTIAL)
    assert {row["seam"] for row in said["seams"] if row["missing"]} >= {seam.label}
    assert len(said["trouble"]) == sum(row["missing"] for row in said["seams"])
    assert of_doctor(capsys)[0] == 0


def test_what_has_no_effect_and_what_is_not_reached_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = {
        BRANCH: Program("return x * 2", mends="where"),
        RESET: Program("return x * 2"),
    }
    monkeypatch.setattr(check, "PROGRAMS", programs)
    status, said = of_doctor(capsys)
    assert status == 1
    assert said["trouble"] == [
        f"{BRANCH} has no effect in this torch, so nothing can be mended exactly.",
        f"{RESET} is not reached in this torch, so nothing can be mended exactly.",
    ]


def test_the_table_names_what_rests_on_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "PROGRAMS", {BRANCH: check.PROGRAMS[BRANCH]})
    main.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "All that is replaced in torch is reached and works."
    (row,) = [line for line in lines if BRANCH in line]
    assert row.split(BRANCH)[1].split() == ["yes", "yes", *ESSENTIAL[0].split()]


def test_the_directory_of_decisions_is_named_with_its_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "PROGRAMS", {})
    where = tmp_path / "cache"
    with gm.config.patch(cache_dir=str(where)):
        for count in range(2):
            said = of_doctor(capsys)[1]
            assert (said["cache"], said["cache entries"]) == (str(where), count)
            EntryFiles(where).write("a" * 64, b"")
        where.chmod(0o777)
        said = of_doctor(capsys)[1]
    assert said["cache"] == f"Other users can write to {where}."
