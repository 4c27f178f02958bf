"""``python -m graphmend_bc explain`` compares what a program compiled, stock and mended."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.processes import python

PROGRAM = """
import sys
import torch

@torch.compile(backend="eager")
def halve(x):
    print("halving")
    if x.sum() > 0:
        return x / 2
    return x * 2

class Clamp(torch.nn.Module):
    def forward(self, x, *, low):
        x = x + 0.5
        if torch.isinf(x).any():
            x = torch.clamp(x, low, 1.0)
        return x * 2

clamp = torch.compile(Clamp(), backend="eager")
unused = torch.compile(Clamp())
again = torch.compile(halve, backend="eager")
x = torch.ones(2)
print(halve(x).tolist(), clamp(x, low=-1.0).tolist(), again(x / 0).tolist())
sys.exit(4)
"""


def explain(program: str, directory: Path) -> CompletedProcess[str]:
    path = directory / "program.py"
    path.write_text(program)
    return python("-m", "graphmend_bc", "explain", str(path), cwd=directory)


def test_tables_have_a_row_for_each_callable_and_each_mend(tmp_path: Path) -> None:
    done = explain(PROGRAM, tmp_path)
    path = tmp_path / "program.py"
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (4, "")
    assert rows == [
        "halving",
        "halving",
        "[0.5, 0.5] [3.0, 3.0] [inf, inf]",
        "compiled graphs breaks skipped frames",
        "halve 2 -> 1 2 -> 0 0 -> 0",
        "Clamp 2 -> 1 1 -> 0 0 -> 0",
        "halve #2 2 -> 1 2 -> 0 0 -> 0",
        "",
        "compiled mended by break where",
        f"halve defer GB0059 {path}:7 in halve",
        f"halve where GB0170 {path}:8 in halve",
        f"Clamp where GB0170 {path}:15 in Clamp.forward",
        f"halve #2 defer GB0059 {path}:7 in halve",
        f"halve #2 where GB0170 {path}:8 in halve",
    ]


@pytest.mark.parametrize("ending", ["", "raise ValueError('no')"])
def test_program_that_compiles_nothing(ending: str, tmp_path: Path) -> None:
    done = explain(ending, tmp_path)
    assert done.stdout == (
        "The program called no function that torch.compile returned, so there is nothing to compare. "
        "Name what could be compiled: graphmend-bc explain --attach 'package.module:Class.forward' ...\n"
    )
    assert done.returncode == bool(ending)
    assert ("ValueError: no" in done.stderr) == bool(ending)


UNCOMPILED = """
import torch
import lib

def scaled(by):
    def scale(x, *rest, low, **names):
        if x.sum() > low:
            return x * by
        return x.add_(rest[0] + names["high"])
    return scale

halve, double = scaled(0.5), scaled(2.0)
x = torch.zeros(2)
print(double(x, 1, low=3, high=4).tolist(), x.tolist())
print(lib.Net()(torch.ones(2)).tolist())
"""


def test_functions_that_the_program_does_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(UNCOMPILED)
    (tmp_path / "lib.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n  def forward(self, x):\n"
        "    if x.sum() > 0:\n      x = x + 1\n    return x\n"
    )
    options = ("--attach", "__main__:*scale", "--attach", "lib:Net", "program.py")
    done = python("-m", "graphmend_bc", "explain", *options, cwd=tmp_path)
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert rows[:5] == [
        "[5.0, 5.0] [5.0, 5.0]",
        "[2.0, 2.0]",
        "compiled graphs breaks skipped frames",
        "scaled.<locals>.scale 2 -> 1 1 -> 0 0 -> 0",
        "Net.forward 2 -> 1 1 -> 0 0 -> 0",
    ]
    assert rows[7].endswith(f"GB0170 {path}:7 in scaled.<locals>.scale")


def test_attach_that_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('it ran')")
    done = python("-m", "graphmend_bc", "explain", "--attach", "no:f", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --attach: 'no:f': attach() cannot find 'no:f'" in done.stderr
