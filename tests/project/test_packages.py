"""The source distribution and the wheel made from it, in an environment that has nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

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


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | variables, capture_output=True, text=True
    )
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def source_distribution(folder: Path) -> Path:
    """What `python -m build --sdist` makes of the files that git knows; the path of the archive."""
    tree = folder / "tree"
    for name in run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-c", "import setuptools.build_meta as b; b.build_sdist('..')", cwd=tree)
    (archive,) = folder.glob("graphmend_bc-*.tar.gz")
    return archive


def wheel_of(archive: Path, **variables: str) -> Path:
    """The wheel that pip makes of a source distribution, without the network."""
    options = ("--no-build-isolation", "--no-deps", "--no-index", "-w", archive.parent / "wheels")
    run(sys.executable, "-m", "pip", "wheel", *options, archive, cwd=archive.parent, **variables)
    (wheel,) = (archive.parent / "wheels").glob("*.whl")
    return wheel


def clean_environment(wheel: Path) -> Path:
    """An environment with the wheel, and the packages that it needs; the path of its Python."""
    folder = wheel.parent / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    (found,) = folder.glob("lib/python*/site-packages")
    # Appended to sys.path, where no .pth file is read: the tree itself is not installed there.
    (found / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.mark.parametrize("without", [pytest.param("1", id="pure"), pytest.param("", id="c")])
def test_a_wheel_in_a_clean_environment(tmp_path: Path, without: str) -> None:
    archive = source_distribution(tmp_path)
    with tarfile.open(archive) as opened:
        names = {Path(name).name for name in opened.getnames()}
    assert {"compat.h", "setup.py", "LICENSE", "README.md", "report.html", "py.typed"} <= names
    wheel = wheel_of(archive, GRAPHMEND_BC_NO_EXTENSION=without)
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
    templates = Path("graphmend_bc/reporting/page/templates")
    parts = {f"{templates}/{path.name}" for path in (ROOT / templates).iterdir()}
    assert len(parts) > 5
    assert {"graphmend_bc/py.typed", *parts} <= names
    assert not {name for name in names if name.startswith(("tests/", "benchmarks/", "csrc/"))}
    assert wheel.stem.endswith("py3-none-any") == (without == "1")

    said = run(clean_environment(wheel), "-c", PROGRAM, cwd=tmp_path).splitlines()
    assert said[0] == f"[2.0, 2.0] [-2.0, -2.0] {not without}"
    assert Path(said[1]).is_relative_to(tmp_path)
