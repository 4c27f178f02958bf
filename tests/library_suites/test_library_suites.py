"""`make library-tests`: who is to blame for a difference, and the table of the kept runs."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

from tests.library_suites import suites
from tests.library_suites.arms import Way, arms_of, listed, rows_of
from tests.library_suites.child.digests_of_variables import digests
from tests.library_suites.suites import SUITES, Suite, version_of
from tests.library_suites.tally import (
    BEGIN,
    END,
    MENDING,
    NOT_COUNTED,
    PAGE,
    SAME,
    STOCK,
    TOO_LONG,
    VERDICTS,
    kept,
    run_of,
    table,
    verdict,
)

LIBRARY = """
import os, torch, graphmend_bc

def twice(x):
    return x * 2 if x.sum() > 0 else x - 1

def told(x):
    return x + float(torch.compiler.is_compiling())

def mended(x):
    return x + 1e-6 if torch.compiler.is_compiling() and graphmend_bc.is_enabled() else x

def ends():
    os._exit(9)

def waits():
    while True:
        pass
"""
TESTS = """
import pytest, torch, toy, unittest

x = torch.ones(2)

def test_twice():
    for y in (x, -x):
        z = toy.twice(y)
    assert z[0] == -2

def test_told():
    assert toy.told(x)[0] > 0

def test_told_in_eager_python():
    assert toy.told(x)[0] == 1

def test_mended():
    z = toy.mended(x)
    torch.testing.assert_close(z, x)

def test_draws():
    z = torch.rand(2)

def test_address():
    z = [id(object)]

@pytest.mark.skip
def test_skipped():
    pass

class TestCase(unittest.TestCase):
    def test_mended_too(self):
        z = toy.mended(x)
        self.assertEqual(len(z), 2)
"""
ENDING = """
import toy

def test_ends():
    toy.ends()

def test_waits():
    toy.waits()

def test_goes_on():
    pass
"""
WHO = {
    "test_twice": SAME,
    "test_told": SAME,
    "test_told_in_eager_python": STOCK,
    "test_mended": MENDING,
    "test_draws": SAME,
    "test_address": NOT_COUNTED,
    "test_skipped": NOT_COUNTED,
    "TestCase::test_mended_too": MENDING,
}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("toy==1.0\n")
    monkeypatch.setattr(suites, "CONSTRAINTS", constraints)
    tests = tmp_path / "toy-1.0" / "checks"
    tests.mkdir(parents=True)
    (tests.parent / "toy.py").write_text(LIBRARY)
    (tests / "test_toy.py").write_text(TESTS)
    (tests / "test_ending.py").write_text(ENDING)
    return Suite("toy", "checks", ("toy",), ("_of_a_network",))


def way(tmp_path: Path, **others: object) -> Way:
    given: dict = {"compiled": "library", "backend": "eager", "limit": 30, **others}
    return Way(tmp_path, tmp_path, **given)


@pytest.mark.slow
def test_arms_of_a_library(toy: Suite, tmp_path: Path) -> None:
    names = [name for name in listed(toy, way(tmp_path)) if "test_toy" in name]
    assert [name.partition("::")[2] for name in names] == list(WHO)
    tests = arms_of(toy, way(tmp_path), names)
    found = {name.partition("::")[2]: verdict(arms) for name, arms in tests.items()}
    assert {name: known for name, (known, _) in found.items()} == WHO
    assert found["test_mended"][1] == "z"
    run = run_of({}, tests)
    assert (run["compiled"], run["mended"]) == (5, 1)
    assert run["strategies"] == {"where": 1}


@pytest.mark.slow
def test_tests_that_are_compiled_themselves(toy: Suite, tmp_path: Path) -> None:
    names = [f"checks/test_toy.py::{name}" for name in ("test_twice", "TestCase::test_mended_too")]
    tests = arms_of(toy, way(tmp_path, compiled="tests"), names)
    assert [verdict(arms)[0] for arms in tests.values()] == [SAME, SAME]
    assert [bool(tests[name]["mended"]["graphs"]) for name in names] == [True, True]
    assert "saw" not in tests[names[0]]["mended"]


@pytest.mark.slow
def test_a_test_that_ends_the_process_or_takes_too_long(toy: Suite, tmp_path: Path) -> None:
    here = way(tmp_path, limit=30)
    names = [name for name in listed(toy, here) if "test_ending" in name]
    rows = rows_of(toy, here, "eager", names)
    assert [rows[name]["outcome"] for name in names] == ["ended the process", "too long", "passed"]


def _arms(**others: dict[str, object]) -> dict[str, dict]:
    row = {"test": "t", "outcome": "passed", "saw": {"x": "a", "y": "b"}}
    return {name: row | others.get(name, {}) for name in ("eager", "again", "stock", "mended")}


FAILED: dict[str, object] = {"outcome": "failed", "why": "no", "saw": {}}
OTHER_X: dict[str, object] = {"saw": {"x": "c", "y": "b"}}
OTHER_Y: dict[str, object] = {"saw": {"x": "a", "y": "c"}}


@pytest.mark.parametrize(
    ("arms", "known"),
    [
        (_arms(), SAME),
        (_arms(stock=FAILED), SAME),
        (_arms(mended=FAILED), MENDING),
        (_arms(mended=FAILED, stock=OTHER_X), MENDING),
        (_arms(mended=FAILED, stock=FAILED), STOCK),
        (_arms(mended=OTHER_X), MENDING),
        (_arms(mended=OTHER_X, stock=OTHER_X), STOCK),
        (_arms(mended=OTHER_X, stock=OTHER_Y), MENDING),
        (_arms(mended=OTHER_X, stock=FAILED), STOCK),
        (_arms(mended={"outcome": "too long"}), TOO_LONG),
        (_arms(mended={"outcome": "too long"}, stock=FAILED), STOCK),
        (_arms(mended={"declines": ["internal-error a.py:1"]}), MENDING),
        (_arms(eager=FAILED), NOT_COUNTED),
        (_arms(again=OTHER_X, mended=OTHER_X), NOT_COUNTED),
        ({"eager": FAILED}, NOT_COUNTED),
    ],
)
def test_who_is_to_blame(arms: dict[str, dict], known: str) -> None:
    assert verdict(arms)[0] == known


def test_variables_are_compared_bit_by_bit() -> None:
    class Held:
        def __init__(self, value: object) -> None:
            self.value = value

    def leaf(number: float) -> torch.Tensor:
        made = torch.ones(2, requires_grad=True)
        (made * number).sum().backward()
        return made

    values = [
        *(torch.ones(2), torch.ones(2).double(), torch.ones(2) + 1e-7, torch.ones(2, 1)),
        *(leaf(1), leaf(2), torch.zeros(2), -torch.zeros(2), torch.eye(2).t(), torch.eye(2)),
        *(numpy.ones(2), numpy.zeros(2), 1, 1.0, True, "1", None, [1], (1,), {1: 2}, {1: 3}),
        *(Held(1), Held([torch.ones(2)]), Held([torch.zeros(2)]), torch.ones(2).to_sparse()),
    ]
    found = digests(dict(enumerate(values)))
    same = [(a, b) for a in found for b in found if a < b and found[a] == found[b]]
    assert same == []
    assert digests({"a": Held([leaf(2), {1: "x"}])}) == digests({"a": Held([leaf(2), {1: "x"}])})


def test_the_page_has_the_table_of_what_is_kept() -> None:
    """`python -m tests.library_suites --table` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0].strip() == table(kept()).strip()


@pytest.mark.parametrize("run", kept(), ids=lambda run: f"{run['library']}-{run['what']}")
def test_numbers_of_kept_runs_agree(run: dict) -> None:
    of = run["verdicts"]
    assert run["tests"] == sum(of.values())
    assert of.keys() <= set(VERDICTS)
    assert len(run["differ"]) == sum(of.get(known, 0) for known in (STOCK, TOO_LONG, MENDING))
    assert run["mended"] <= run["compiled"] <= run["tests"] - of.get(NOT_COUNTED, 0)


def test_each_library_is_pinned() -> None:
    assert all(version_of(suite.library) for suite in SUITES)
