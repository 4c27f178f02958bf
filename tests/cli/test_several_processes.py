"""A program that runs as several ranks, or that starts other processes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from graphmend_bc.cli.child_processes import ChildProcesses
from graphmend_bc.cli.ranks import _pieces
from tests.processes import python

RUN = ("-m", "graphmend_bc", "run")

HALVE = """
import torch
def halve(x):
    if x.sum() > 0:
        return x / 2
    return x * 2
def compiled(_=None):
    torch.compile(halve, backend="eager")(torch.ones(2))
"""

MAIN = "if __name__ == '__main__':\n    "


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return tmp_path / "program.py"


@pytest.mark.slow
def test_each_rank_writes_and_names_its_own(program: Path) -> None:
    program.write_text(HALVE + "compiled()\nprint('done')\n")
    options = ("--report", "out.html", "--json", "out.json", "--fail-on-miss-rate=0", "program.py")
    for rank in ("0", "1"):
        given = {"RANK": rank, "WORLD_SIZE": "2"}
        done = python(*RUN, *options, cwd=program.parent, env=given)
        assert (done.returncode, done.stdout) == (0, "done\n")
        lines = done.stderr.splitlines()
        assert f"[rank {rank} of 2] graphmend_bc: 1 mended, 0 declined" in lines[0]
        assert all(line.startswith(f"[rank {rank} of 2] ") for line in lines)
        assert json.loads((program.parent / f"out.rank{rank}.json").read_text())["mends"]
        assert (program.parent / f"out.rank{rank}.html").exists()
    assert not list(program.parent.glob("out.*ml.*"))
    assert not (program.parent / "out.json").exists()


TRAINING = (
    HALVE
    + """
import torch.distributed as dist

dist.init_process_group("gloo")
compiled()
total = torch.ones(1)
dist.all_reduce(total)
assert total == 2
dist.destroy_process_group()
"""
)


@pytest.mark.slow
@pytest.mark.skipif(not dist.is_available(), reason="This torch has no distributed package.")
@pytest.mark.parametrize("command", ["run", "explain"])
def test_two_ranks_of_torchrun(command: str, program: Path) -> None:
    """They share their output, and the files that are named; nothing of either is lost."""
    program.write_text(TRAINING)
    own = (sys.executable, "-m", "graphmend_bc", command, "--report", "out.html", "--json")
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python")
    done = python(*launch, *own, "out.json", "program.py", cwd=program.parent)
    assert done.returncode == 0, done.stderr
    written = done.stderr if command == "run" else done.stdout
    said: dict[str, list[str]] = {"0": [], "1": []}
    for label, text in re.findall(r"^\[rank (\d) of 2\] (.*)$", written, re.M):
        said[label].append(text)
    assert len(said["0"]) == len(said["1"]) > 2
    names = sorted(path.name for path in program.parent.glob("out*"))
    assert names == ["out.rank0.html", "out.rank0.json", "out.rank1.html", "out.rank1.json"]
    for number in said:
        data = json.loads((program.parent / f"out.rank{number}.json").read_text())
        (mend,) = data["mends"] if command == "run" else data["compiled"][0]["mends"]
        assert mend["strategy"] == "where"
        assert [text for text in said[number] if f"{program}:4 in halve" in text]
        assert "halve" in (program.parent / f"out.rank{number}.html").read_text()
    if command == "explain":
        assert said["0"][-1].startswith("Nothing was timed: the ranks would have made different")


def test_pieces_that_a_pipe_takes_at_once() -> None:
    lines = [f"{number}: " + "x" * 300 for number in range(40)] + ["y" * 9000, "end"]
    pieces = list(_pieces("[rank 1 of 2] ", "\n".join(lines)))
    assert "".join(pieces) == "".join(f"[rank 1 of 2] {line}\n" for line in lines)
    assert all(piece.endswith("\n") for piece in pieces)
    assert [len(piece) > 4096 for piece in pieces].count(True) == 1  # the line that is longer
    assert len(pieces) == 6


@pytest.mark.slow
@pytest.mark.parametrize("given", [{"RANK": "0", "WORLD_SIZE": "1"}, {"RANK": "0"}])
def test_the_only_rank_is_not_named(given: dict[str, str], program: Path) -> None:
    program.write_text("")
    done = python(*RUN, "--json", "out.json", "program.py", cwd=program.parent, env=given)
    assert done.stderr.startswith("graphmend_bc: 0 mended")
    assert (program.parent / "out.json").exists()


def test_what_stays_short_is_labelled_too(program: Path) -> None:
    program.write_text("")
    given = {"RANK": "3", "WORLD_SIZE": "8"}
    options = ("--quiet", "--fail-on-break", "program.py")
    done = python(*RUN, *options, cwd=program.parent, env=given)
    assert done.returncode == 3
    assert done.stderr.startswith("[rank 3 of 8] graphmend_bc: the program compiled nothing, ")


UNMENDED = "is not in this report, and not mended unless they call graphmend_bc.enable()."


@pytest.mark.slow
@pytest.mark.parametrize(
    ("starts", "said"),
    [
        (
            "import multiprocessing as mp\n    with mp.get_context('spawn').Pool(2) as pool: "
            "pool.map(compiled, [0])",
            "(2 by multiprocessing)",
        ),
        (
            "import multiprocessing as mp\n    mp.set_start_method('spawn')\n"
            "    p = mp.Process(target=compiled); p.start(); p.join()\n    import subprocess, sys\n"
            "    subprocess.run([sys.executable, '-c', 'print(1)'])\n"
            "    subprocess.run(['echo', '2']); subprocess.run('echo 3', shell=True)",
            "(1 by multiprocessing, 1 by subprocess)",
        ),
        (
            "import multiprocessing as mp\n    p = mp.get_context('fork').Process(target=print); "
            "p.start(); p.join()",
            "",
        ),
        (
            "import subprocess, sys\n    subprocess.run([sys.executable, '-m', 'graphmend_bc', "
            "'run', '--quiet', '-m', 'this'])",
            "",
        ),
    ],
)
def test_processes_that_are_not_mended_are_mentioned(starts: str, said: str, program: Path) -> None:
    program.write_text(HALVE + MAIN + starts)
    done = python(*RUN, "program.py", cwd=program.parent)
    assert done.returncode == 0, done.stderr
    whole = f"The program started other Python processes {said}. What they compile {UNMENDED}\n"
    assert (whole in done.stderr) is bool(said)
    assert (UNMENDED in done.stderr) is bool(said)


def test_torchs_own_processes_are_none_of_the_programs() -> None:
    done = python(
        "-c",
        "import subprocess, sys\n"
        "from graphmend_bc.cli.child_processes import ChildProcesses\n"
        "children = ChildProcesses()\n"
        "children.watch()\n"
        "start = 'subprocess.check_call([sys.executable, chr(45) + chr(99), chr(49)])'\n"
        "exec(start, {'sys': sys, 'subprocess': subprocess,"
        " '__name__': 'torch._inductor.cpu_vec_isa'})\n"
        "print(repr(str(children)))\n"
        "exec(start)\n"
        "print(children.by_subprocess)\n",
    )
    assert done.stdout == "''\n1\n", done.stderr
    assert str(ChildProcesses()) == ""
