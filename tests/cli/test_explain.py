"""``python -m graphmend_bc explain`` compares what a program compiled, stock and mended."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import torch
from torch.fx import GraphModule

from graphmend_bc.cli.explanation import compiled_callables
from graphmend_bc.cli.explanation.compiled_callables import FirstCall
from graphmend_bc.dynamo.facts import default_backend
from graphmend_bc.reporting.call_times import WHEN
from graphmend_bc.reporting.durations import duration
from graphmend_bc.reporting.report import Report
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


def explain(program: str, directory: Path, *options: str) -> CompletedProcess[str]:
    path = directory / "program.py"
    path.write_text(program)
    return python("-m", "graphmend_bc", "explain", *options, str(path), cwd=directory)


@pytest.mark.slow
def test_tables_have_a_row_for_each_callable_and_each_line(tmp_path: Path) -> None:
    done = explain(PROGRAM, tmp_path, "--seconds", "0")
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
        f"halve, halve #2 defer GB0059 {path}:7 in halve",
        f"halve, halve #2 where GB0170 {path}:8 in halve",
        f"Clamp where GB0170 {path}:15 in Clamp.forward",
    ]


TIMED = """
import logging
import torch

logging.basicConfig()
gone = []

@torch.compile(backend="eager")
def refuse(x):
    print("refusing")
    logging.warning("refusing too")
    if x.min() < 0:
        raise ValueError
    return x + 1

@torch.compile(backend="eager")
def grow(x):
    gone.append(x)
    return x * len(gone)

@torch.compile(backend="eager")
def thrice(x, calls=[0]):
    calls[0] += 1
    if calls[0] > 3:
        raise OSError("the disk is full")
    return x

for function in (refuse, grow, thrice):
    function(torch.ones(2))
"""


@pytest.mark.slow
def test_what_is_gained(tmp_path: Path) -> None:
    files = ("--json", "out.json", "--report", "out.html")
    done = explain(TIMED, tmp_path, "--seconds", "0.1", *files)
    assert (done.returncode, done.stderr) == (0, "WARNING:root:refusing too\n")
    assert done.stdout.count("refusing") == 1
    rows = [re.split(r"  +", line) for line in done.stdout.splitlines()]
    assert ["compiled", "call", "eager", "stock", "mended"] in rows
    data = json.loads((tmp_path / "out.json").read_text())
    refuse, grow, thrice = data["compiled"]
    for one in (refuse, grow):
        times = one["times"]
        first, rest = ([row for row in rows if row[:2] == [one["name"], w]] for w in WHEN)
        assert first[0][2:] == [
            duration(times[v]["first_ns"]) for v in ("eager", "stock", "mended")
        ]
        assert [len(row) for row in (*first, *rest)] == [5, 5]
        low, high = times["mended"]["quartiles_ns"]
        assert low <= times["mended"]["median_ns"] <= high
    said = refuse["times"]["gain"]
    assert f"refuse: {said[0].lower()}{said[1:]}" in done.stdout
    page = (tmp_path / "out.html").read_text().replace("&#39;", "'")
    assert f"refuse: {said[0].lower()}{said[1:]}" in page
    assert '<th scope="col">at rest: mended</th>' in page
    assert "How long calls take stands below" in page
    assert "grow: no gain is stated, because the function does not come to rest." in done.stdout
    assert thrice == {"name": "thrice", "error": "OSError: the disk is full"}
    assert "thrice: it may be possible to run it once more: --seconds 0 calls each" in done.stdout
    calls = refuse["speculated"]["calls"]
    assert calls == 4 + refuse["times"]["mended"]["calls_at_rest"]
    assert f"A check failed in 0 of {calls} speculated calls." in done.stdout
    assert [row[-1] for row in rows if row[:2] == ["refuse", "speculate"]] == [f"0 of {calls}"]


def test_seconds_that_are_none(tmp_path: Path) -> None:
    done = explain("print('it ran')", tmp_path, "--seconds", "-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --seconds: '-1' is no number of seconds, such as 0 or 2.5." in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", "raise ValueError('no')"])
def test_program_that_compiles_nothing(ending: str, tmp_path: Path) -> None:
    """It is told so, unless it failed: then there is its error to be read."""
    done = explain(ending, tmp_path)
    told = (
        "The program called no function that torch.compile returned, so there is nothing to compare. "
        "Name what could be compiled: graphmend-bc explain --attach 'package.module:Class.forward' ...\n"
    )
    assert done.stdout == ("" if ending else told)
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


@pytest.mark.slow
def test_functions_that_the_program_does_not_compile(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(UNCOMPILED)
    (tmp_path / "lib.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n  def forward(self, x):\n"
        "    if x.sum() > 0:\n      x = x + 1\n    return x\n"
    )
    options = ("--seconds=0", "--attach", "__main__:*scale", "--attach", "lib:Net", "program.py")
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
    assert rows[7].endswith(f"GB0170 {path}:7 in scaled.<locals>.scale 0 of 1")


@pytest.mark.slow
def test_attach_that_names_nothing(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('it ran')")
    done = python("-m", "graphmend_bc", "explain", "--attach", "no:f", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --attach: 'no:f': attach() cannot find 'no:f'" in done.stderr


PARTLY = """
import torch

def loud(x):
    torch._dynamo.graph_break()
    return abs(x) if x.min() < 0 else x + 1

@torch.compile(backend="eager")
def through(x):
    return loud(x.sin()) * 2

@torch.compile(backend="eager")
def plain(x):
    return x + 1

@torch.compile(backend="eager")
def once(x, calls=[]):
    calls.append(x)
    if len(calls) > 1:
        raise ValueError("not <again>")
    return x

for function in (through, plain, once):
    function(torch.ones(2))
"""


COUNTS = ("graphs", "breaks", "skipped_frames")


@pytest.mark.slow
def test_console_page_and_json_agree(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PARTLY)
    options = ("--seconds=0", "--json", "out.json", "--report", "out.html", "program.py")
    done = python("-m", "graphmend_bc", "explain", *options, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads((tmp_path / "out.json").read_text())
    assert data["schema"] == json.loads(Report().to_json())["schema"]
    through, plain, once = data["compiled"]
    assert once == {"name": "once", "error": "ValueError: not <again>"}
    rows = [
        [one["name"], *(f"{one['before'][key]} -> {one['after'][key]}" for key in COUNTS)]
        for one in (through, plain)
    ]
    assert through["before"]["graphs"] > through["after"]["graphs"] > 1
    assert plain["before"] == plain["after"]
    assert rows == [re.split(r"  +", line) for line in done.stdout.splitlines()[1:3]]
    page = (tmp_path / "out.html").read_text().replace("&gt;", ">")
    cells = re.findall(r"<td>(.*?)</td>", page.partition("</table>")[0])
    assert cells == [cell for row in rows for cell in row]
    figures = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    for name, key in zip(("graphs", "breaks", "skipped frames"), COUNTS, strict=True):
        sums = (sum(one[when][key] for one in (through, plain)) for when in ("before", "after"))
        assert figures[name] == " -> ".join(map(str, sums))
    assert figures["mended"] == str(len(through["mends"])) == "1"
    assert figures["declined"] == str(len(through["declines"]))
    assert "once could not be run again: ValueError: not &lt;again>" in page
    assert "How long calls take" not in page


@pytest.mark.slow
def test_files_are_written_also_if_there_is_nothing_to_compare(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import torch")
    options = ("--json", "out.json", "--report", "out.html", "program.py")
    done = python("-m", "graphmend_bc", "explain", *options, cwd=tmp_path)
    data = json.loads((tmp_path / "out.json").read_text())
    assert (set(data), data["compiled"]) == ({"schema", "provenance", "compiled"}, [])
    page = (tmp_path / "out.html").read_text()
    assert done.stdout.partition(".")[0] in page
    assert "no break was left" not in page


@pytest.mark.parametrize("named", [False, True])
def test_the_backend_is_that_of_the_program(named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_backend() == "inductor"
    graphs: dict[bool, int] = {False: 0, True: 0}

    def backend(is_named: bool, graph: GraphModule, inputs: object) -> GraphModule:
        graphs[is_named] += 1
        return graph

    def branch(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    monkeypatch.setattr(compiled_callables, "default_backend", lambda: partial(backend, False))
    options = {"backend": partial(backend, True)} if named else {}
    FirstCall("branch", branch, options, (torch.ones(2),), {}, True).explain(0)
    assert graphs == {named: 3, not named: 0}
