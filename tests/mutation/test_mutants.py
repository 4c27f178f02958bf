"""Mutants of small sources, and how one is put in and noticed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.mutation.__main__ import ROOT
from tests.mutation.mutants import mutants_of
from tests.mutation.trial import first_failure, put_in


def changes(source: str) -> list[str]:
    return [mutant.change for mutant in mutants_of(source)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a and b", ["a and b without a", "a and b without b"]),
        ("return a < b", ["a < b -> a <= b"]),
        ("return a == b", ["a == b -> a <= b"]),
        ("return a is b", []),
        ("return a == 'b'", []),
        ("return False", ["return False -> return True"]),
        ("return 1 if a else 2", ["a -> True", "a -> False"]),
        ("raise ValueError(a)", ["raise ValueError(a) -> pass"]),
        (
            "if a or b: pass",
            ["a or b -> True", "a or b -> False", "a or b without a", "a or b without b"],
        ),
    ],
)
def test_what_is_changed(line: str, expected: list[str]) -> None:
    assert changes(f"def f(a, b):\n    {line}\n") == expected


def test_each_change_is_one_place() -> None:
    source = "def f(a):\n    if a:\n        return True\n    if not a:\n        return True\n"
    twice = [mutant for mutant in mutants_of(source) if "return True" in mutant.change]
    assert [(mutant.line, mutant.change) for mutant in twice] == [
        (3, "return True -> return False"),
        (5, "return True -> return False, time 2"),
    ]
    assert twice[1].source == source[: source.rindex("True")] + "False \n"


def test_what_follows_stays_on_its_line() -> None:
    source = (
        "def f(a):\n    if (\n        a\n        or not a\n    ):\n        pass\n    return 1\n"
    )
    for mutant in mutants_of(source):
        assert mutant.source.splitlines()[6] == "    return 1"
        compile(mutant.source, "f.py", "exec")


def test_names_of_a_set_that_refuses() -> None:
    source = "INDEXING = frozenset({'put', 'take'})\nOTHER = frozenset({'add'})\n"
    left = [(mutant.function, mutant.change) for mutant in mutants_of(source)]
    assert left == [("INDEXING", "without 'put'"), ("INDEXING", "without 'take'")]


def test_a_nested_function_is_changed_in_the_outer_one() -> None:
    source = (
        "class A:\n    def f(self):\n        def g(a):\n            return True\n        return g\n"
    )
    assert [mutant.function for mutant in mutants_of(source)] == ["A.f"]


BOUNDS = "ODD = frozenset({'odd'})\n\n\ndef small(a):\n    return a < 3\n"
TESTS = """
import bounds

def test_zero():
    assert bounds.small(0) and bounds.ODD == {"odd"}

def test_three():
    assert not bounds.small(3)
"""


def test_the_first_test_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bounds.py").write_text(BOUNDS)
    (tmp_path / "test_bounds.py").write_text(TESTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import bounds  # type: ignore[import-not-found]

    tests = ["test_bounds.py::test_zero", "test_bounds.py::test_three"]
    weak = BOUNDS.replace("<", "<=")
    assert first_failure("bounds", "small", BOUNDS, tests) == ""
    assert first_failure("bounds", "small", weak, tests) == "test_bounds.py::test_three"
    assert first_failure("bounds", "small", weak, tests[:1]) == ""
    for_ever = BOUNDS.replace("return a < 3", "while a < 3: pass")
    assert first_failure("bounds", "small", for_ever, tests, limit=3) == "time"
    assert bounds.small(2)  # this process has what it had
    put_in(bounds, "ODD", BOUNDS.replace("'odd'", "''"))
    assert bounds.ODD == {""}


RULES = """
def less_than(bound):
    def rule(a):
        return a < bound
    return rule

small = less_than(3)
"""


def test_a_function_that_was_made_already_is_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(str(tmp_path))
    import made_rules  # type: ignore[import-not-found]

    assert not made_rules.small(3)
    put_in(made_rules, "less_than", RULES.replace("a < bound", "a <= bound"))
    assert made_rules.small(3)


def test_what_is_explained_is_there() -> None:
    explained = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text())
    known = {
        f"{module}: {mutant.function}: {mutant.change}"
        for module in {name.partition(":")[0] for name in explained}
        for mutant in mutants_of((ROOT / module).read_text())
    }
    assert explained.keys() <= known
    assert all(reason.endswith(".") for reason in explained.values())
