"""The distributions of this tree, and environments that have nothing but what is put into them."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a command prints, without this tree on its path; it must succeed."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept | variables, capture_output=True, text=True
    )
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


def source_distribution(folder: Path, **variables: str) -> Path:
    """What `python -m build --sdist` makes of the files that git knows; the path of the archive."""
    tree = folder / "tree"
    for name in run("git", "ls-files", "-co", "--exclude-standard", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    build = "import setuptools.build_meta as b; b.build_sdist('..')"
    run(sys.executable, "-c", build, cwd=tree, **variables)
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
