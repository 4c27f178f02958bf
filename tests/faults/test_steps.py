"""An error in any function of the library's, while it compiles or later: the program does not notice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import FunctionType
from zlib import crc32

import pytest

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.testing.observation import Observed
from tests.faults.planted import (
    KINDS,
    PASSING,
    Fault,
    Scenario,
    Tried,
    functions_in,
    reached,
    surroundings,
    tried,
)
from tests.faults.scenarios import SCENARIOS

PACKAGES = (
    "dynamo.",
    "engine.",
    "rules.",
    "rewriting.",
    "legality.",
    "reporting.",
    "runtime.",
    "code.",
)

LIMITS: dict[str, str] = {
    "dynamo.frames.attempt:may_compile": "It reads two attributes of torch's, in every call.",
    "dynamo.graph.state_snapshot:Before.restore": "What a graph did cannot be undone.",
    "dynamo.graph.state_snapshot:Before.restore_modes": "Modes cannot be put back.",
    "dynamo.verification.verifier:Verifier._ends": "What it calls may fail, it may not.",
    "dynamo.verification.verifier:Verifier.enter": "What it calls may fail, it may not.",
    "dynamo.verification.verifier:Verifier.leave": "What it calls may fail, it may not.",
    "dynamo.verification.verifier:_end": "It gives a lock back.",
    "runtime.deferral.effect_preflight:EffectPreflight.check": "What it calls may fail, it may not.",
    "runtime.deferral.effects:Effect.run": "It makes the call: what it calls before may fail.",
    "runtime.deoptimise:Deoptimise.__init__": "It sets two attributes, and the results must not be used.",
    "runtime.deoptimise:Deoptimizer._shims": "What it calls may fail, it may not.",
    "runtime.deoptimise:Deoptimizer.run": "It is the last resort: what it calls may fail.",
    "runtime.draws:Draws.roll_back": "A generator's state cannot be put back.",
    "runtime.draws:_set_state": "A generator's state cannot be put back.",
    "runtime.shown_effects:_Noted.write": "It writes what the program writes.",
}
"""What cannot be mended, and why: the error reaches the program."""


@pytest.fixture(autouse=True)
def on_disk(tmp_path: Path) -> Iterator[None]:
    with gm.config.patch(cache_dir=str(tmp_path)):
        yield


def steps(scenario: Scenario, *, in_calls: bool = False) -> dict[str, FunctionType]:
    """The functions that a scenario comes by, or those that run while nothing is compiled."""
    scenario.mended(session.new_state(mends=True))  # what is made once in a process
    functions = functions_in(*PACKAGES)
    found = reached(functions, scenario)
    labels = found.in_calls if in_calls else found.all
    return {label: functions[label] for label in labels if label not in LIMITS}


def differences(scenario: Scenario, seen: list[Observed]) -> list[object]:
    """What is neither as in eager Python nor as stock has it: the name of a resumed function, for one."""
    eager, stock = _expected(scenario.name)
    return [
        (field.name, getattr(one, field.name), getattr(call, field.name))
        for one, other, call in zip(eager, stock, seen, strict=True)
        for field in fields(call)
        if getattr(call, field.name) not in (getattr(one, field.name), getattr(other, field.name))
    ]


@cache
def _expected(name: str) -> tuple[list[Observed], list[Observed]]:
    (scenario,) = (scenario for scenario in SCENARIOS if scenario.name == name)
    return scenario.eager(), scenario.of_stock()


def problem(scenario: Scenario, function: FunctionType, fault: Fault, from_call: int) -> str:
    """What a fault does that the program or its user notices; empty if nothing."""
    before = surroundings()
    found = tried(scenario, function, fault, from_call)
    if wrong := differences(scenario, found.seen):
        return f"A call differs: {wrong}"
    if is_told_too_often(found, fault):
        return f"It is told more than once: {found.warned}"
    return "" if surroundings() == before else "The surroundings are changed."


def is_told_too_often(found: Tried, fault: Fault) -> bool:
    """Whether there are more warnings than frames that are declined or things that are told."""
    kinds = len(set(found.warned)) if fault.always else 1
    return len(found.warned) > max(found.declined, kinds)


def passes(scenario: Scenario, function: FunctionType, fault: Fault) -> str:
    """What is wrong where an interrupt comes; empty if nothing."""
    before = surroundings()
    try:
        found = tried(scenario, function, fault)
    except fault.kind as error:
        if error.args != ("planted",) or error.__cause__ or hasattr(error, "__notes__"):
            return f"It is another one: {error!r}"
    else:
        return f"It was lost: {found.warned}" if fault.raised > fault.in_guards else ""
    if surroundings() != before:
        return "The surroundings are changed."
    later = differences(scenario, scenario.mended(session.new_state(mends=True)))
    return f"Later calls differ: {later}" if later else ""


WAYS = ((True, 0), (False, 0), (True, 2), (False, 2))
"""Whether an error is raised in every call, and from which call of the program on."""


def attempts(
    scenario: Scenario,
    functions: dict[str, FunctionType],
    every: int = 1,
    only: str | None = None,
) -> Iterator[tuple[str, str]]:
    """An error in each function, in all ways, or in one of so many functions, in some ways.

    Which functions that are and how they fail rests on their names alone: another function of the
    library's changes nothing.

    Args:
        scenario: the program.
        functions: by their labels.
        every: one of so many is tried.
        only: the name of the class of all errors; None for several classes.

    Yields:
        What was tried, and what the program or its user notices; empty if nothing.
    """
    for label, function in sorted(functions.items()):
        number, rest = divmod(crc32(f"{scenario.name} {label}".encode()), every)
        if rest:
            continue
        kinds = KINDS if every == 1 else (KINDS[number % len(KINDS)],)
        passing = PASSING if every == 1 else (PASSING[number % len(PASSING)],)
        if only is not None:
            kinds, passing = (
                tuple(kind for kind in known if kind.__name__ == only) for known in (KINDS, PASSING)
            )
        for kind, (always, from_call) in itertools.product(kinds, WAYS):
            said = problem(scenario, function, Fault(kind, always), from_call)
            yield f"{label}: {kind.__name__}, always {always}, from call {from_call}", said
        for interrupt in passing:
            said = passes(scenario, function, Fault(interrupt, False))
            yield f"{label}: {interrupt.__name__}", said


def problems(
    scenario: Scenario, functions: dict[str, FunctionType], every: int = 1
) -> dict[str, str]:
    """What is noticed of them, by what was tried."""
    return {tried: said for tried, said in attempts(scenario, functions, every) if said}


each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=[s.name for s in SCENARIOS])


@pytest.mark.slow
@each_scenario
def test_some_functions(scenario: Scenario) -> None:
    assert problems(scenario, steps(scenario), every=360) == {}


@pytest.mark.slow
@each_scenario
def test_some_functions_that_run_in_calls(scenario: Scenario) -> None:
    assert problems(scenario, steps(scenario, in_calls=True), every=48) == {}


@pytest.mark.nightly
@each_scenario
def test_every_function(scenario: Scenario) -> None:
    assert problems(scenario, steps(scenario)) == {}
