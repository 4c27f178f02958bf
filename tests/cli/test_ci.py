"""What a build server wants: versions, a quick help, and an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphmend_bc as gm
from tests.processes import python

MENDED = """
import sys, torch

@torch.compile(backend="eager")
def f(x):
    if x.sum() > 0:
        return x / 2
    return x * 2

f(torch.ones(2)), f(-torch.ones(2))
sys.exit(int(sys.argv[1]) if sys.argv[1:] else None)
"""

BROKEN = """
import torch

@torch.compile(backend="eager")
def f(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2

f(torch.ones(2))
"""

MISSED = """
import torch

def f(x):
    if (x > 9).any():
        raise ValueError
    return x + 1

compiled = torch.compile(f, backend="eager")
for i in range(10):
    try:
        compiled(torch.full((2,), 10.0 if i == 5 else 1.0))
    except ValueError:
        pass
"""


MISSED_AT_MANY = """
import torch

def f(x):
    for i in range(6):
        if x[i] > 9:
            raise ValueError(i)
        x = x + 0
    if x.isnan().any():
        raise KeyError
    return x + 1

compiled = torch.compile(f, backend="eager")
for i in range(8):
    x = torch.ones(6)
    if i % 2:
        x[i % 6] = 10.0
    try:
        compiled(x)
    except ValueError:
        pass
"""

NOTHING = "graphmend_bc: the program compiled nothing, so there is nothing to count for "


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["run", "--help"]])
def test_torch_is_not_imported_for_a_word(arguments: list[str]) -> None:
    program = f"""
import sys
from graphmend_bc.cli.main import main
try:
    main({arguments!r})
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""
    done = python("-c", program)
    assert (done.returncode, done.stderr) == (0, "False\n")
    assert ("usage: graphmend-bc" in done.stdout) is (arguments != ["--version"])
    assert (f"graphmend_bc {gm.__version__}, torch 2." in done.stdout) is (
        arguments == ["--version"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "options", "status", "said"),
    [
        (MENDED, ["--fail-on-break"], 0, ""),
        (MENDED, ["--fail-on-break=0", "--fail-on-miss-rate", "0"], 0, ""),
        (BROKEN, ["--fail-on-break"], 3, "1 graph break is left; --fail-on-break=0."),
        (BROKEN, ["--quiet", "--fail-on-break=9"], 0, ""),
        (BROKEN, ["--fail-on-break", "9"], 0, ""),
        (BROKEN, ["--fail-on-break", "0", "--quiet"], 3, "left; --fail-on-break=0."),
        (BROKEN, [], 0, ""),
        ("", [], 0, "The program compiled nothing."),
        ("", ["--fail-on-break"], 3, NOTHING + "--fail-on-break."),
        ("", ["--fail-on-break", "7"], 3, NOTHING + "--fail-on-break."),
        (
            "import torch; torch.compile(abs)",
            ["--fail-on-miss-rate=1", "--fail-on-break=1", "--quiet"],
            3,
            NOTHING + "--fail-on-break and --fail-on-miss-rate.",
        ),
        (MISSED, ["--fail-on-miss-rate=0.05"], 3, "the check failed in 1 of 10 speculated calls"),
        (MISSED, ["--fail-on-miss-rate", "0.2"], 0, ""),
        (MISSED_AT_MANY, ["--fail-on-miss-rate=0.4"], 3, "in 4 of 8 speculated calls (50.0%)"),
        (MISSED_AT_MANY, ["--fail-on-miss-rate=0.5"], 0, "a check failed in 4 of 8 speculated"),
    ],
)
def test_exit_status(
    program: str, options: list[str], status: int, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "program.py"
    path.write_text(program)
    done = python("-m", "graphmend_bc", "run", *options, str(path), cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert said in done.stderr


def test_usage_says_how_the_limit_is_written() -> None:
    for command in ("run", "scan"):
        done = python("-m", "graphmend_bc", command, "--help")
        assert "[--fail-on-break [N]]" in done.stdout


@pytest.mark.slow
def test_status_of_the_program_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(MENDED)
    done = python("-m", "graphmend_bc", "run", "--fail-on-break", str(path), "7", cwd=tmp_path)
    assert done.returncode == 7


def test_options_after_the_program_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text("import sys; print(sys.argv[1:])")
    done = python("-m", "graphmend_bc", "run", str(path), "--fail-on-break", "x", cwd=tmp_path)
    assert done.stdout == "['--fail-on-break', 'x']\n"
    assert "The program compiled nothing." in done.stderr
    assert "--attach" in done.stderr


@pytest.mark.slow
def test_explain_of_a_function(tmp_path: Path) -> None:
    (tmp_path / "models.py").write_text("""
import torch

X = torch.ones(2)

def branch(x):
    if x.sum() > 0:
        return x / 2
    return x * 2

def once():
    return branch(X)

def compiled():
    return torch.compile(branch, backend="eager")(X)
""")
    for name, label in (("once", "models:once"), ("compiled", "branch")):
        done = python(
            *("-m", "graphmend_bc", "explain", "--json", "out.json", f"models:{name}"), cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        (found,) = json.loads((tmp_path / "out.json").read_text())["compiled"]
        assert found["name"] == label
        assert found["before"]["breaks"] > found["after"]["breaks"] == 0
        assert [mend["strategy"] for mend in found["mends"]] == ["where"]
