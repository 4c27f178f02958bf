"""Programs of every kind are made, called in every way, judged, and shown by a script of their own."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from graphmend_bc.testing.observation import Observed
from tests.fuzz.__main__ import FAMILIES as CHOICES
from tests.fuzz.arms import shown
from tests.fuzz.found import script_of
from tests.fuzz.hunt import hunt
from tests.fuzz.kinds import ALL_KINDS, KINDS, kinds_of
from tests.fuzz.programs import Program
from tests.fuzz.record import BEGIN, END, PAGE, kept, table
from tests.fuzz.rounding import is_rounding
from tests.fuzz.test_changing import _generated
from tests.fuzz.verdict import Fault, _errs_in_an_order, judge
from tests.fuzz.ways import THREADS, WAYS
from tests.releases import since

CALLS = tuple(f"(torch.tensor({x}), None, None, 2)" for x in ("[1.0, 2.0]", "[-1.0, -2.0]"))


@pytest.mark.nightly
def test_two_thousand_programs_have_all_kinds() -> None:
    kinds: Counter[str] = Counter()
    for program in _generated(2000, 0, "any"):
        kinds.update(kinds_of(program))
    missing = set(ALL_KINDS) - kinds.keys() - ({"training steps"} if not since(2, 13) else set())
    assert not missing, kinds
    assert 2000 // 25 < kinds["backend inductor"] < 2000 // 5


def test_the_command_knows_all_families() -> None:
    assert set(CHOICES) == KINDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("any", "inductor")])
def test_programs_of_a_kind(kind: str) -> None:
    """Thirty programs of each are exact, and something is mended in some of them."""
    catch = hunt(30, 0, kind=kind)
    if catch.failure is not None:
        program, difference = catch.failure
        pytest.fail(f"{difference}\n\n{program.test()}", pytrace=False)
    assert sum(catch.faults.values()) == 30
    assert {"where", "speculate", "defer"} & catch.met.keys()


# Threads, and functions that are saved

_BRANCH = """
def f(x, y, z, k):
    if x.sum() > 0:
        x = x * 2
    return x + k
"""


def test_threads_make_all_calls_each_in_its_order() -> None:
    program = Program(_BRANCH, CALLS, "eager", False, way="threads")
    seen = WAYS["threads"](program, lambda f: f, lambda: None)
    assert len(seen) == THREADS * len(CALLS)
    assert seen[0].result == seen[3].result != seen[1].result == seen[2].result
    verdict = judge(program)
    assert verdict.fault is Fault.NONE
    assert verdict.strategies == {"where"}


def test_threads_that_share_something_are_told_from_eager_python() -> None:
    """Each thread counts on from where the others are."""
    source = "def f(x, y, z, k):\n    counts.append(k)\n    return x + len(counts)\n\ncounts = []\n"
    program = Program(source, CALLS, "eager", False, way="threads")
    assert len({repr(seen.result) for seen in WAYS["threads"](program, lambda f: f, int)}) > 2


def test_what_stock_says_of_a_call_in_some_order_is_stocks() -> None:
    """Threads call in another order in each run, and so does stock."""
    source = "def f(x, y, z, k):\n    return x + torch.compiler.is_compiling()\n"
    program = Program(source, CALLS, "eager", False, way="threads")
    want, got = (
        shown(WAYS["threads"](program, wrap, int)[3], "result")
        for wrap in (lambda f: f, functools.partial(torch.compile, backend="eager"))
    )
    assert _errs_in_an_order(program, 3, got, "result")
    assert not _errs_in_an_order(program, 3, want, "result")


def test_a_saved_function_is_compared() -> None:
    program = Program(_BRANCH, CALLS, "eager", False, way="saved")
    verdict = judge(program)
    assert (verdict.fault, verdict.strategies) == (Fault.NONE, {"where"})
    refused = Program(_BRANCH.replace("x * 2", "print(x)"), CALLS, "eager", False, way="saved")
    assert judge(refused).fault is Fault.NONE
    unsaved = Program("def f(x, y, z, k):\n    return open(x)\n", CALLS, "eager", False, "saved")
    assert judge(unsaved).declines == {"not saved"}


# Inductor

_ONE = ("torch.float32", (1,), (1,), "[{}]", False, "Tensor")


def _seen(value: str) -> Observed:
    return Observed(result=("list", [(*_ONE[:3], _ONE[3].format(value), *_ONE[4:])]))


@pytest.mark.parametrize(
    ("other", "rounds"),
    [
        ("1.0000001", True),
        ("1.0", True),
        ("1.001", False),
        ("nan", False),
        ("1.0, 1.0", False),
        ("True", False),
    ],
)
def test_what_is_a_matter_of_rounding(other: str, rounds: bool) -> None:
    assert is_rounding([_seen("1.0")], [_seen(other)]) is rounds
    assert is_rounding([_seen("nan")], [_seen("nan")])


@pytest.mark.slow
def test_inductor_is_judged_bit_for_bit() -> None:
    source = _BRANCH.replace("x + k", "x.abs() - k")
    assert judge(Program(source, CALLS, "inductor", False)).fault is Fault.NONE


# What is found

_WRONG = """
import struct
from tests import wrong_rule

if not hasattr(wrong_rule, "is_registered"):
    wrong_rule.register()
    wrong_rule.is_registered = True

def f(x, y, z, k):
    return x + struct.calcsize("ii")
"""


@pytest.mark.slow
@pytest.mark.parametrize("source", [_WRONG, _BRANCH])
def test_a_script_runs_by_itself(source: str, tmp_path: Path) -> None:
    """It ends with 1 and shows the difference, if mending is still wrong."""
    is_wrong = source == _WRONG
    program = Program(source, CALLS, "eager", False)
    script = tmp_path / "found.py"
    script.write_text(script_of(program, 'of """quotes""" and \\'), encoding="utf-8")
    command, tree = [sys.executable, str(script)], str(PAGE.parents[1])
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": tree},
        check=False,
    )
    assert ended.returncode == int(is_wrong), ended.stderr
    assert ("call 0: result is" in ended.stdout) is is_wrong


# What is kept


def test_the_page_has_the_table_of_what_is_kept() -> None:
    """`python -m tests.fuzz.record` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(kept()).strip()


def test_numbers_of_kept_runs_agree() -> None:
    for run in kept():
        _check(run)


def _check(run: dict[str, Any]) -> None:
    assert run["programs"] == sum(run["faults"].values())
    assert run["kinds"].keys() <= set(ALL_KINDS)
    of_backends = sum(n for name, n in run["kinds"].items() if name.startswith("backend "))
    assert of_backends == run["programs"]
