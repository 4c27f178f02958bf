"""What a report says of the program, the versions and the time."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.reporting.provenance import Provenance
from tests.processes import python

NAMES = ["program", "command", "graphmend_bc", "torch", "python", "time"]


def test_versions_and_time_are_those_of_this_process() -> None:
    found = Provenance.here()
    assert list(asdict(found)) == NAMES
    assert found.versions == (
        f"graphmend_bc {gm.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
    assert shlex.split(found.command) == sys.orig_argv
    made = datetime.fromisoformat(found.time)
    assert timedelta(0) <= datetime.now().astimezone() - made < timedelta(minutes=1)


def test_a_python_without_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [])
    assert Provenance.here().program == ""
    monkeypatch.delattr(sys, "argv")
    assert Provenance.here().program == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "program"),
    [
        (("run", "--quiet", "--json", "out.json", "program.py", "--lr", "1 2"), "program.py"),
        (("explain", "--json", "out.json", "program.py", "--lr", "1 2"), "program.py"),
        (("explain", "--json", "out.json", "program:main"), "program:main"),
        (("scan", "--json", "program.py"), None),
    ],
    ids=["run", "explain", "explain a function", "scan"],
)
def test_each_json_has_it(tmp_path: Path, options: tuple[str, ...], program: str | None) -> None:
    (tmp_path / "program.py").write_text("def main(): pass")
    done = python("-m", "graphmend_bc", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file = tmp_path / "out.json"
    found = json.loads(file.read_text() if file.exists() else done.stdout)
    assert isinstance(found["schema"], int)
    provenance = found["provenance"]
    assert list(provenance) == NAMES
    assert tuple(shlex.split(provenance["command"])[-len(options) :]) == options
    assert provenance["torch"] == torch.__version__
    assert program in (None, provenance["program"])


def test_text_that_utf8_cannot_hold_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["<b>\udcff.py"])
    gm.Report().to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<code>&lt;b&gt;\\udcff.py</code>" in page
