"""``graphmend-bc bisect`` finds the mends that make a program do something else."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from graphmend_bc.cli.bisection.bisect import find
from graphmend_bc.cli.bisection.smallest import culprits
from graphmend_bc.cli.bisection.trials import Run, Trials
from tests import processes

PROGRAM = """
import struct, sys, torch
from tests import wrong_rule

wrong_rule.register()

@torch.compile(backend="eager")
def f(x):
    print("sum", x.sum())
    n = struct.calcsize("ii")
    m = struct.calcsize("ii")
    if x.sum() > 0:
        x = x * n
    return x + m

def main():
    return f(torch.ones(2)).tolist()

if __name__ == "__main__":
    found = main()
    {ends}
"""


def bisect(*arguments: str, cwd: Path) -> tuple[int, str, dict[str, Any]]:
    """Exit status, what it prints, and its JSON."""
    root = str(processes.ROOT)
    command = ["-m", "graphmend_bc", "bisect", "--json", "out.json", *arguments]
    # A dozen processes, each of which imports torch.
    done = processes.python(*command, cwd=cwd, env={"PYTHONPATH": root}, limit=4 * processes.LIMIT)
    assert (cwd / "out.json").exists(), done.stderr
    return done.returncode, done.stdout, json.loads((cwd / "out.json").read_text())


@pytest.mark.slow
def test_two_guilty_lines_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(ends="print(found)"))
    status, out, found = bisect("program.py", "an argument", cwd=tmp_path)
    assert status == 0
    first, *lines = out.splitlines()
    assert first == "These mends make the difference: the program prints something else."
    assert lines[0] == f"polyfill   {program}:10 in f (rule 'wrong')"
    assert lines[1:4] == [
        f"    Switch it off: GRAPHMEND_BC_SITES_OFF={program}:10",
        "    Switch it off: graphmend_bc.config.rules_off = ('wrong',)",
        "    Switch it off: @graphmend_bc.leave_alone before f",
    ]
    assert [[mend["site"]["lineno"] for mend in group] for group in found["guilty"]] == [[10], [11]]
    assert found["guilty"][1][0]["off"] == {
        "sites_off": [f"{program}:11"],
        "rules_off": ["wrong"],
    }
    off = {
        "GRAPHMEND_BC_SITES_OFF": "program.py:10,program.py:11",
        "PYTHONPATH": str(processes.ROOT),
    }
    command = ["-m", "graphmend_bc", "run", "--quiet", "program.py"]
    assert processes.python(*command, cwd=tmp_path, env=off).stdout.endswith("[16.0, 16.0]\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["nowhere:f"], "'nowhere:f' names no function: No module named 'nowhere'"),
        (["os.path:joint"], "'os.path:joint' names no function: module 'posixpath' has no"),
        (["os.path:join"], "'os.path:join' must be a function that is called without arguments"),
        (["-m", "nowhere"], "No module named nowhere"),
    ],
    ids=["no module", "no attribute", "it takes arguments", "no program"],
)
def test_what_does_not_start_is_refused(command: list[str], message: str, tmp_path: Path) -> None:
    done = processes.python(
        *["-m", "graphmend_bc", "bisect", "--json", "out.json", *command],
        cwd=tmp_path,
        env={"PYTHONPATH": str(processes.ROOT)},
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert f"graphmend-bc bisect: error: the program does not start. {message}" in (
        done.stderr.replace(f"{sys.executable}: ", "")
    )
    assert not (tmp_path / "out.json").exists()


@pytest.mark.nightly
def test_a_check_says_which_runs_are_good(tmp_path: Path) -> None:
    """The function's result is printed; the check reads it."""
    (tmp_path / "program.py").write_text(PROGRAM.format(ends="pass"))
    check = (
        "import sys; first = eval(sys.stdin.read().splitlines()[-1])[0]; sys.exit(first % 8 > 1)"
    )
    command = ["program:main", "--", sys.executable, "-c", check]
    status, out, found = bisect(*command, cwd=tmp_path)
    assert (status, found["known"]) == (0, True)
    assert "These mends make the difference: the check ends with status 1." in out
    (group,) = found["guilty"]  # 16 without mending, 17 with one of the lines alone, 18 with both
    assert sorted(mend["site"]["lineno"] for mend in group) == [10, 11]
    assert out.count("(each of them is needed)") == 2


class Scripted(Trials):
    """Runs whose outcome a function of the lines that are mended says."""

    def __init__(self, outcome: Any, places: Sequence[str] = "abcdefgh", check: Any = ()) -> None:
        super().__init__([], check)
        self.outcome = outcome
        self.lines = {f"{name}.py:1" for name in places}

    def _run(self, settings: dict[str, str]) -> Run:
        self.count += 1
        if settings.get("GRAPHMEND_BC") == "0":
            return self.outcome(None, self.count)
        only = settings.get("GRAPHMEND_BC_SITES_ONLY")
        lines = self.lines if only is None else self.lines & set(only.split(","))
        run = self.outcome({line[0] for line in lines}, self.count)
        mends = [
            {
                "strategy": "where",
                "rule": "where",
                "site": {"filename": line[:-2], "lineno": 1, "function": "f"},
            }
            for line in sorted(lines)
        ]
        return Run(run.status, run.output, run.errors, run.check, tuple(mends))


def _prints(text: str, status: int = 0, errors: str = "") -> Run:
    return Run(status, text, errors)


SCRIPTS = {
    "nothing differs": (
        lambda on, n: _prints("1.00001"),
        True,
        "The program does the same with mending and without.",
    ),
    "it fails": (
        lambda on, n: _prints("", 1, "Traceback\nOSError: no disk"),
        True,
        "The program does the same with mending and without: its exit status is 1: OSError: no disk.",
    ),
    "rounding": (
        lambda on, n: _prints("1.0001" if on else "1.0002"),
        True,
        "The program does the same with mending and without.",
    ),
    "stock is random": (
        lambda on, n: _prints(f"run {n}"),
        False,
        "Two runs without mending differ",
    ),
    "mended is random": (
        lambda on, n: _prints("" if on is None else f"run {n}"),
        False,
        "Two mended runs differ",
    ),
    "no mend": (
        lambda on, n: _prints("stock" if on is None else "mended"),
        False,
        "No mend makes the difference: it is there without any.",
    ),
    "not reported": (
        lambda on, n: _prints("bad" if on and n < 5 else ""),
        False,
        "No mend of the report makes the difference by itself.",
    ),
    "a crash": (
        lambda on, n: _prints("", -11, "Segmentation fault") if on and "c" in on else _prints(""),
        True,
        "This mend makes the difference: without mending its exit status is 0; mended, its exit "
        "status is -11: Segmentation fault.",
    ),
    "it hangs": (
        lambda on, n: Run(None, "", "") if on and "c" in on else _prints(""),
        True,
        "This mend makes the difference: without mending its exit status is 0; mended, it took "
        "too long.",
    ),
}


@pytest.mark.parametrize(("outcome", "known", "verdict"), SCRIPTS.values(), ids=SCRIPTS.keys())
def test_verdicts(outcome: Any, known: bool, verdict: str) -> None:
    finding = find(Scripted(outcome))
    assert finding.known is known
    assert finding.verdict.startswith(verdict)
    guilty = [["c.py:1"]] if verdict.startswith("This mend") else []
    off = [
        [place for m in group for place in m["off"]["sites_off"]]
        for group in finding.as_dict()["guilty"]
    ]
    assert off == guilty


def test_a_check_that_fails_without_mending() -> None:
    finding = find(Scripted(lambda on, n: Run(0, "", "", check=1), check=["false"]))
    assert (finding.known, finding.verdict) == (
        False,
        "The check fails without mending, too: its exit status is 0.",
    )


CULPRITS = {
    "one": ({"f"}, [["f"]], 8),
    "two": ({"a", "h"}, [["a"], ["h"]], 14),
    "together": ({"bg"}, [["b", "g"]], 24),
    "some together": ({"bg", "d"}, [["d"], ["b", "g"]], 30),
    "all": ({*"abcdefgh"}, [[name] for name in "abcdefgh"], 40),
}


@pytest.mark.parametrize(("bad", "groups", "most"), CULPRITS.values(), ids=CULPRITS.keys())
def test_culprits(bad: set[str], groups: list[list[str]], most: int) -> None:
    asked: set[frozenset[str]] = set()

    def fails(some: Sequence[str]) -> bool:
        asked.add(frozenset(some))
        return any(set(group) <= {*some} for group in bad)

    assert culprits("abcdefgh", fails) == groups
    assert len(asked) <= most


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    command = ["-m", "graphmend_bc", "bisect", "--json", "out.json", "nowhere.py"]
    done = processes.python(*command, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere.py': [Errno 2] No such file or directory" in done.stderr
    assert not (tmp_path / "out.json").exists()
