"""An error in any function of the library's, while it compiles or later: the program does not notice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import FunctionType

import pytest

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.testing.observation import Observed
from tests.faults.planted import (
    KINDS,
    PASSING,
    Fault,
    Scenario,
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
    "engine.frame_planner:FrameOutcomes.graph_failed": "What it calls may fail, it may not.",
    "runtime.deferral.effect_preflight:EffectPreflight.check": "What it calls may fail, it may not.",
    "runtime.deoptimise:Deoptimise.__init__": "It sets two attributes, and the results must not be used.",
    "runtime.deoptimise:Deoptimizer._callers": "What it calls may fail, it may not.",
    "runtime.draws:_set_state": "A generator's state cannot be put back.",
}
"""What cannot be mended, and why: the error reaches the program."""


@pytest.fixture(autouse=True)
def on_disk(tmp_path: Path) -> Iterator[None]:
    with gm.config.patch(cache_dir=str(tmp_path)):
        yield


def steps(scenario: Scenario) -> dict[str, FunctionType]:
    """The functions that a scenario comes by."""
    scenario.mended(session.new_state(mends=True))  # what is made once in a process
    functions = functions_in(*PACKAGES)
    found = reached(functions, lambda: scenario.mended(session.new_state(mends=True)))
    return {label: functions[label] for label in found if label not in LIMITS}


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
    if len(found.warned) > max(found.declined, len(set(found.warned)) if fault.always else 1):
        return f"It is told more than once: {found.warned}"
    return "" if surroundings() == before else "The surroundings are changed."


def passes(scenario: Scenario, function: FunctionType, fault: Fault) -> str:
    """What is wrong where an interrupt comes; empty if nothing."""
    before = surroundings()
    try:
        found = tried(scenario, function, fault)
    except fault.kind as error:
        if error.args != ("planted",) or error.__cause__ or hasattr(error, "__notes__"):
            return f"It is another one: {error!r}"
    else:
        return f"It was lost: {found.warned}" if fault.raised else ""
    if surroundings() != before:
        return "The surroundings are changed."
    later = differences(scenario, scenario.mended(session.new_state(mends=True)))
    return f"Later calls differ: {later}" if later else ""


def problems(scenario: Scenario, first: int = 0, every: int = 1) -> dict[str, str]:
    """What is wrong with each so-manieth function that a scenario comes by, in all ways or in one."""
    found = {}
    for number, (label, function) in enumerate(sorted(steps(scenario).items())[first::every]):
        kinds = KINDS if every == 1 else (KINDS[number % len(KINDS)],)
        for kind, (always, from_call) in itertools.product(kinds, WAYS):
            said = problem(scenario, function, Fault(kind, always), from_call)
            found[f"{label}: {kind.__name__}, always {always}, from call {from_call}"] = said
        for interrupt in PASSING if every == 1 else (PASSING[number % len(PASSING)],):
            found[f"{label}: {interrupt.__name__}"] = passes(
                scenario, function, Fault(interrupt, False)
            )
    return {label: said for label, said in found.items() if said}


WAYS = ((True, 0), (False, 0), (True, 2))
"""Whether an error is raised in every call, and from which call of the program on."""


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_some_functions(scenario: Scenario) -> None:
    assert problems(scenario, SCENARIOS.index(scenario), every=240) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.name for scenario in SCENARIOS])
def test_every_function(scenario: Scenario) -> None:
    assert problems(scenario) == {}
