"""Programs whose surroundings change are what they say, and a change that is missed is reported."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from graphmend_bc.engine.state import MendingState
from tests import oracle
from tests.fuzz import arms, verdict
from tests.fuzz.catalog import FAMILIES, SURROUNDINGS
from tests.fuzz.hunt import hunt
from tests.fuzz.kinds import KINDS
from tests.fuzz.programs import Program
from tests.fuzz.verdict import Fault, judge

COUNT = 800


@functools.cache
def _generated(count: int, seed_: int, kind: str = "surroundings") -> list[Program]:
    programs: list[Program] = []

    @seed(seed_)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(KINDS[kind])
    def note(program: Program) -> None:
        programs.append(program)

    note()
    return programs


def _statements(node: ast.AST) -> set[str]:
    return {ast.unparse(inner) for inner in ast.walk(node) if isinstance(inner, ast.stmt)}


@functools.cache
def _made() -> set[str]:
    """Every statement of a `change` in some generated program."""
    made: set[str] = set()
    for program in _all_generated():
        made |= _statements(ast.parse(program.source).body[-1])
    return made


def _all_generated() -> list[Program]:
    return [program for family in FAMILIES for program in _generated(COUNT, 0, family)]


@functools.cache
def _read() -> set[str]:
    """Every expression in some generated program."""
    return {
        ast.dump(node)
        for program in _all_generated()
        for node in ast.walk(ast.parse(program.source))
        if isinstance(node, ast.expr)
    }


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, one in SURROUNDINGS.items() for kind in one.changes]
)
def test_every_kind_of_change_is_made(name: str, kind: str) -> None:
    changes = SURROUNDINGS[name].changes[kind]
    assert any(_statements(ast.parse(change)) <= _made() for change in changes)


@pytest.mark.slow
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_every_surrounding_is_met(name: str) -> None:
    """Programs have it, most ways to define it are drawn, and they read it."""
    surrounding = SURROUNDINGS[name]
    sources = [program.source for program in _all_generated()]
    definitions = [ast.unparse(ast.parse(definition)) for definition in surrounding.definitions]
    drawn = [text for text in definitions if any(text in source for source in sources)]
    assert len(drawn) > len(definitions) // 2
    fields = {"vector": "x", "constant": "2", "test": "x.sum() > 0"}
    fields |= {"number": "2.0", "whole": "k", "matrix": "y"}
    forms = [form.format(**fields) for form in surrounding.vector]
    assert any(ast.dump(ast.parse(form, mode="eval").body) in _read() for form in forms)


def test_programs_notice_their_changes() -> None:
    """The changes of every third program show in what eager Python does."""
    programs = _generated(60, 1)
    differences = [
        arms.difference_of(_eager(program), _eager(_without_change(program)))
        for program in programs
    ]
    assert sum(map(bool, differences)) > len(programs) // 3


@pytest.mark.slow
def test_no_change_raises() -> None:
    for program in _all_generated():
        assert program.changes
        assert len(_eager(program)) == len(program.calls)


def _eager(program: Program) -> list[oracle.Seen]:
    return arms.run(program, lambda f: f)


def test_same_seed_same_programs() -> None:
    first = _generated.__wrapped__(40, 5)
    assert first == _generated.__wrapped__(40, 5)
    assert first != _generated.__wrapped__(40, 6)


@pytest.mark.slow
def test_share_of_programs_that_change() -> None:
    """A third, as far as Hypothesis draws evenly."""
    counts = [sum(program.changes for program in _generated(60, n, "any")) for n in range(3)]
    assert 180 // 9 < sum(counts) < 180 * 2 // 3, counts
    assert not any(program.changes for program in _generated(30, 0, "plain"))


# What a missed change is taken for

_compiled = verdict.compiled


def _without_change(program: Program, number: str = "") -> Program:
    """The program, with a `change` that does nothing, or nothing before one call."""
    test = f"if number == {number}"
    return replace(
        program, source=program.source.replace(test, f"if -9 == {test.removeprefix('if ')}")
    )


def _missing(mended: str | None, stock: str | None) -> Callable[..., list[oracle.Seen]]:
    """`_compiled`, whose arms do not see the changes before some calls; "" is all of them, None is none."""

    def compiled(
        program: Program, state: MendingState, *rest: Any, **kwargs: Any
    ) -> list[oracle.Seen]:
        missed = mended if state.mends else stock
        unseen = program if missed is None else _without_change(program, missed)
        return _compiled(unseen, state, *rest, **kwargs)

    return compiled


def test_missed_change_is_found_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "compiled", _missing("", None))
    catch = hunt(60, 3, kind="surroundings")
    assert catch.failure is not None
    program, difference = catch.failure
    assert difference.startswith("call 1: ")
    assert "if number == 1:" in program.source
    body = next(
        node
        for node in ast.walk(ast.parse(program.source))
        if isinstance(node, ast.FunctionDef) and node.name in ("f", "forward")
    ).body
    assert len(body) <= 6
    assert len(program.calls) == 2
    namespace: dict[str, Any] = {"check": lambda *args, **kwargs: args}
    exec(program.test(), {"torch": __import__("torch")} | namespace)


_TWICE = """
level = 1.0
rows = []

def f(x, y, z, k):
    print('here')
    return (x * level, x + len(rows))

def change(number):
    global level
    if number == 1:
        level = 2.0
    if number == 1.0:
        rows.append(0)
"""


@pytest.mark.parametrize(
    ("mended", "stock", "fault"),
    [
        (None, None, Fault.NONE),
        (None, "", Fault.NONE),
        ("", None, Fault.MENDING),
        ("", "", Fault.STOCK),
        ("1:", "", Fault.STOCK),  # the first part is wrong, stock is wrong in both
        ("", "1:", Fault.MENDING),  # the second part is right in stock
        ("1.0", "1:", Fault.MENDING),
    ],
)
def test_fault_of_missed_change(
    monkeypatch: pytest.MonkeyPatch, mended: str | None, stock: str | None, fault: Fault
) -> None:
    """Stock is to blame only for what it gets wrong in this very program, in the same calls."""
    monkeypatch.setattr(verdict, "compiled", _missing(mended, stock))
    calls = ("(torch.ones(3), None, None, 2)",) * 2
    assert judge(Program(_TWICE, calls, "eager", False)).fault is fault


def test_surroundings_start_anew_in_each_arm() -> None:
    """What one arm's changes leave behind, modes included, is not met by the next."""
    source = """
items = []

def f(x, y, z, k):
    print(len(items), torch.is_grad_enabled())
    return x * len(items)

def change(number):
    items.append(number)
    torch.set_grad_enabled(False)
"""
    program = Program(source, ("(torch.ones(3), None, None, 2)",) * 3, "eager", False)
    first = _eager(program)
    assert [seen.printed for seen in first] == [f"{n} False\n" for n in (1, 2, 3)]
    assert first == _eager(program)
    assert judge(program).fault is Fault.NONE


@pytest.mark.slow
def test_generated_programs() -> None:
    """A hundred programs whose surroundings change are exact under mending."""
    catch = hunt(100, 0, kind="surroundings")
    if catch.failure is not None:
        program, difference = catch.failure
        pytest.fail(f"{difference}\n\n{program.test()}", pytrace=False)
    assert catch.faults["STOCK"] <= 100 // 10
