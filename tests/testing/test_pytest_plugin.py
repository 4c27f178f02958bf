"""The pytest plugin on a small project, in a process of its own."""

from __future__ import annotations

import json
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.processes import python

INSTALLED = any(point.name == "graphmend_bc" for point in entry_points(group="pytest11"))
"""Whether pytest finds the plugin by itself, as it does where the package was installed."""

PLUGIN = [] if INSTALLED else ["-p", "graphmend_bc.pytest_plugin"]

PROJECT = """
import pytest, torch, graphmend_bc

def f(x):
    return x * 2 if x.sum() > 0 else x - 1

def left(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

@pytest.fixture
def compiled():
    torch._dynamo.reset()
    return torch.compile(f, backend="eager")

def test_plain(compiled):
    print("ON" if graphmend_bc.is_enabled() else "OFF")
    compiled(torch.ones(2))

@pytest.mark.graphmend
def test_marked(compiled):
    assert graphmend_bc.is_enabled()
    compiled(torch.ones(2))
    torch.compile(left, backend="eager")(torch.ones(2))

@pytest.mark.no_graphmend
def test_unmarked(compiled):
    assert not graphmend_bc.is_enabled()
    compiled(torch.ones(2))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "plain", "summary"),
    [
        ([], "OFF", "1 of 1 test compiled something: 1 site mended, 1 break left."),
        (["--graphmend"], "ON", "2 of 2 tests compiled something: 2 sites mended, 1 break left."),
    ],
)
def test_small_project(options: list[str], plain: str, summary: str, tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    plugin = [*PLUGIN, "-p", "no:cacheprovider", "--strict-markers"]
    done = python("-m", "pytest", "-sq", *plugin, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert plain in done.stdout
    assert summary in done.stdout
    assert "3 passed" in done.stdout
    assert "test_project.py::test_marked: " in done.stdout


CHECKED = """
import pytest, torch

def f(x):
    if x[0] > 9:
        raise ValueError
    if x[1] > 9:
        raise ValueError
    return x + 1

@pytest.mark.parametrize("bad", [[0, 0, 0], [0, 99, 0]])
def test_it(bad):
    torch._dynamo.reset()
    compiled = torch.compile(f, backend="eager")
    for value in bad:
        try:
            compiled(torch.tensor([0.0, value]))
        except ValueError:
            assert value
"""


@pytest.mark.slow
def test_failed_checks_of_all_tests_are_told(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(CHECKED)
    done = python("-m", "pytest", "-q", "--graphmend", *PLUGIN, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A check failed in 1 of 6 speculated calls." in done.stdout


ASSERTS = """
import pytest, torch, graphmend_bc
from graphmend_bc.testing import assert_exact, assert_no_breaks

def f(x):
    return x * 2 if x.sum() > 0 else x - 1

def left(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

def test_exact():
    assert_exact(f, torch.ones(2), -torch.ones(2))

def test_no_breaks():
    assert_no_breaks(f, torch.ones(2))

def test_left():
    with pytest.raises(AssertionError):
        assert_no_breaks(left, torch.ones(2))

def test_both():
    torch.compile(f, backend="eager")(torch.ones(2))
    assert_exact(left, torch.ones(2))

def test_nothing():
    pass
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_assertions_count_and_workers_tell(workers: list[str], tmp_path: Path) -> None:
    if workers:
        pytest.importorskip("xdist")
    (tmp_path / "test_asserts.py").write_text(ASSERTS)
    plugin = [*PLUGIN, "-p", "no:cacheprovider", "--graphmend", *workers]
    done = python("-m", "pytest", "-q", *plugin, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    said = "4 of 5 tests compiled something: 3 sites mended, 2 breaks left."
    assert lines.count(said) == 1, done.stdout
    declined = [line for line in lines if line.startswith("test_asserts.py::")]
    assert [line.partition(":: ")[0].split(": ")[0] for line in declined] == [
        "test_asserts.py::test_both",
        "test_asserts.py::test_left",
    ]


@pytest.mark.slow
def test_workers_come_to_what_one_process_does(tmp_path: Path) -> None:
    """Totals, declines and JSON of a project of several files, by one process and by two."""
    pytest.importorskip("xdist")
    for name, text in {"project": PROJECT, "checked": CHECKED, "asserts": ASSERTS}.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    said, written = [], []
    for workers in ("0", "2"):
        options = ("--graphmend", "--graphmend-json", f"{workers}.json", "-n", workers)
        done = python(
            "-m", "pytest", "-q", *PLUGIN, "-p", "no:cacheprovider", *options, cwd=tmp_path
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(re.findall(r"^(?:\d+ of|A check|test_).*$", done.stdout, re.M))
        written.append(json.loads((tmp_path / f"{workers}.json").read_text()))
    assert said[0] == said[1]
    assert said[0][:2] == [
        "8 of 9 tests compiled something: 9 sites mended, 3 breaks left.",
        "A check failed in 1 of 6 speculated calls.",
    ]
    assert [line.split(": ")[0] for line in said[0][2:]] == [
        "test_asserts.py::test_both",
        "test_asserts.py::test_left",
        "test_project.py::test_marked",
    ]
    assert written[0]["tests"] == written[1]["tests"]
    assert len(written[0]["tests"]) == 9
    for data in written:
        assert set(data) == {"schema", "provenance", "tests", "lost_workers"}
        assert (data["schema"], data["lost_workers"]) == (1, [])
        assert "--graphmend-json" in data["provenance"]["command"]


CRASHES = """
import os, torch

def test_crash():
    os._exit(1)
"""


@pytest.mark.slow
def test_a_worker_that_crashed_is_mentioned(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "test_crash.py").write_text(CRASHES)
    options = ("--graphmend", "--graphmend-json=out.json", "-n1", "--max-worker-restart=0")
    done = python("-m", "pytest", "-q", *PLUGIN, "-p", "no:cacheprovider", *options, cwd=tmp_path)
    assert done.returncode == 1
    assert "gw0 crashed; what the tests that ran there came to is not counted." in done.stdout
    assert json.loads((tmp_path / "out.json").read_text())["lost_workers"] == ["gw0"]


@pytest.mark.slow
def test_switched_off_from_outside_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "test_asserts.py").write_text(ASSERTS.partition("def test_exact")[0] + PLAIN)
    done = python(
        "-m", "pytest", "-q", *PLUGIN, "--graphmend", cwd=tmp_path, env={"GRAPHMEND_BC": "0"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GRAPHMEND_BC=0, so the tests ran without mending." in done.stdout


PLAIN = """
def test_plain():
    assert not graphmend_bc.is_enabled()
    torch.compile(f, backend="eager")(torch.ones(2))
"""


def test_without_the_option_nothing_is_said_or_imported(tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(
        "import sys\ndef test_it():\n    assert 'torch' not in sys.modules\n"
    )
    done = python("-m", "pytest", "-q", *PLUGIN, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "graphmend_bc" not in done.stdout
