"""Compiled code that a program loads: `run` says that it was not seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import python

FUNCTIONS = """
import torch

def f(x):
    return x * 2 + 1

def g(x):
    return x.sin()
"""

SAVES = """
import torch
import functions

torch._dynamo.config.enable_aot_compile = True
with torch.no_grad():
    saved = torch.compile(functions.f, fullgraph=True, backend="inductor").aot_compile(
        ((torch.ones(3),), {})
    )
saved.save_compiled_function("f.bin")
"""

LOADS = """
import io
import torch
import functions
from torch.compiler import load_compiled_function

with open("f.bin", "rb") as file, torch.no_grad():
    assert torch.equal(load_compiled_function(file)(torch.ones(3)), functions.f(torch.ones(3)))
    file.seek(0)
    load_compiled_function(io.BytesIO(file.read()))
{rest}
"""

COMPILES = "print(torch.compile(functions.g, backend='eager')(torch.ones(3)).shape)"
SEEN = "loaded compiled code from f.bin, a stream. Graph breaks in it are not seen;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    (folder / "functions.py").write_text(FUNCTIONS)
    (folder / "saves.py").write_text(SAVES)
    done = python("saves.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rest", "options", "status", "said"),
    [
        ("", [], 0, SEEN),
        ("", ["--fail-on-break"], 3, SEEN),
        (COMPILES, [], 0, SEEN),
        (COMPILES, ["--fail-on-break=5"], 3, SEEN),
        (COMPILES, ["--fail-on-miss-rate=0"], 0, SEEN),
    ],
)
def test_run_says_what_was_loaded(
    folder: Path, rest: str, options: list[str], status: int, said: str
) -> None:
    (folder / "loads.py").write_text(LOADS.format(rest=rest))
    done = python("-m", "graphmend_bc", "run", *options, "loads.py", cwd=folder)
    assert done.returncode == status, done.stderr
    assert said in done.stderr


@pytest.mark.slow
def test_nothing_is_said_where_nothing_was_loaded(folder: Path) -> None:
    (folder / "plain.py").write_text(f"import torch\nimport functions\n{COMPILES}\n")
    done = python("-m", "graphmend_bc", "run", "--fail-on-break", "plain.py", cwd=folder)
    assert (done.returncode, "loaded" in done.stderr) == (0, False)
