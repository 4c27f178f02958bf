"""Building the extension, and installing without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools")

ROOT = Path(__file__).parents[2]
SETUP = ROOT / "setup.py"


WITHOUT_GIL = f"""
import runpy, sysconfig
sysconfig.get_config_vars()["Py_GIL_DISABLED"] = 1
runpy.run_path({str(SETUP)!r}, run_name="__main__")
"""


def build(directory: Path, *, script: str = "", **environ: str) -> tuple[list[str], str]:
    """Run setup.py, or a script that does, into a directory; the extensions built and what was said."""
    where = (f"--build-lib={directory / 'lib'}", f"--build-temp={directory / 'temp'}")
    program = ["-c", script] if script else [str(SETUP)]
    done = subprocess.run(
        [sys.executable, *program, "build_ext", *where],
        cwd=ROOT,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    built = sorted(path.name for path in directory.rglob("_frame_hooks*.so"))
    return built, done.stdout + done.stderr


def test_a_failing_compiler_ends_in_one_warning(tmp_path: Path) -> None:
    built, said = build(tmp_path, CC="false")
    assert built == []
    assert said.count("graphmend_bc is installed without its C extension") == 1


def test_no_compiler_ends_in_one_warning(tmp_path: Path) -> None:
    built, said = build(tmp_path, CC="/no/such/compiler")
    assert built == []
    assert said.count("graphmend_bc is installed without its C extension") == 1


def test_the_extension_can_be_skipped(tmp_path: Path) -> None:
    built, said = build(tmp_path, CC="false", GRAPHMEND_BC_NO_EXTENSION="1")
    assert built == []
    assert "without its C extension" not in said


def test_a_free_threaded_build_gets_no_extension(tmp_path: Path) -> None:
    built, said = build(tmp_path, script=WITHOUT_GIL)
    assert built == []
    assert said.count("relies on the GIL, which this free-threaded build of Python lacks") == 1


def test_the_sources_compile_without_a_warning(tmp_path: Path) -> None:
    compiler = os.environ.get("CC", "cc")
    try:
        subprocess.run([compiler, "--version"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"There is no C compiler {compiler}.")
    flags = "-std=c11 -Wall -Wextra -Werror"
    built, said = build(tmp_path, CFLAGS=flags)
    assert len(built) == 1, said
