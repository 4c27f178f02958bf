"""The source distribution and the wheel made from it, in an environment that has nothing else."""

from __future__ import annotations

import re
import tarfile
import zipfile
from pathlib import Path

import pytest

import graphmend_bc
from tests.distributions import ROOT, clean_environment, run, source_distribution, wheel_of
from tests.wheels import faults_of

PROGRAM = """
import importlib.util, torch, graphmend_bc

@torch.compile(backend="eager", fullgraph=True)
def step(x):
    if x.sum() > 0:
        return x * 2
    return x - 1

graphmend_bc.enable()
found = importlib.util.find_spec("graphmend_bc._frame_hooks") is not None
print(step(torch.ones(2)).tolist(), step(-torch.ones(2)).tolist(), found)
print(graphmend_bc.__file__)
"""


@pytest.mark.slow
@pytest.mark.parametrize("without", [pytest.param("1", id="pure"), pytest.param("", id="c")])
def test_a_wheel_in_a_clean_environment(tmp_path: Path, without: str) -> None:
    archive = source_distribution(tmp_path, GRAPHMEND_BC_NO_EXTENSION=without)
    with tarfile.open(archive) as opened:
        names = set(opened.getnames())
    top = f"graphmend_bc-{graphmend_bc.__version__}"
    sources = {f"{top}/csrc/{path.name}" for path in (ROOT / "csrc").iterdir()}
    assert len(sources) > 5
    assert sources | {f"{top}/{name}" for name in ("setup.py", "LICENSE", "README.md")} <= names
    wheel = wheel_of(archive, GRAPHMEND_BC_NO_EXTENSION=without)
    assert faults_of(wheel) == []
    assert wheel.stem.endswith("py3-none-any") == (without == "1")

    said = run(clean_environment(wheel), "-c", PROGRAM, cwd=tmp_path).splitlines()
    assert said[0] == f"[2.0, 2.0] [-2.0, -2.0] {not without}"
    assert Path(said[1]).is_relative_to(tmp_path)


def test_what_is_wrong_with_a_wheel_is_found(tmp_path: Path) -> None:
    version = graphmend_bc.__version__
    wheel = tmp_path / f"graphmend_bc-{version}-cp311-cp311-linux_x86_64.whl"
    left_out = {"graphmend_bc/py.typed", "graphmend_bc/_frame_hooks.pyi"}
    with zipfile.ZipFile(wheel, "w") as made:
        for path in (ROOT / "graphmend_bc").rglob("*.*"):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix not in (".so", ".pyc") and name not in left_out:
                made.write(path, name)
        made.writestr("tests/test_it.py", "")
    assert faults_of(wheel) == [
        "graphmend_bc/_frame_hooks.pyi is missing.",
        "graphmend_bc/py.typed is missing.",
        "tests/test_it.py is not a file of the package.",
        "It has 0 builds of the extension in place of 1.",
    ]


def test_the_version_is_written_once() -> None:
    version = graphmend_bc.__version__
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None
    assert newest[1] == version
    for page in ("docs/index.md", "docs/support.md"):
        named = re.findall(r"[Vv]ersion (\d[\d.]*\d)", (ROOT / page).read_text(encoding="utf-8"))
        assert named, page
        assert set(named) <= {version, version.rpartition(".")[0]}, page
