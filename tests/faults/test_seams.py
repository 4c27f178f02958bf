"""An error at any seam, before or after torch's own function has run: the program does not notice."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.canary.check import PROGRAMS, _can_run
from graphmend_bc.canary.program import Program
from graphmend_bc.canary.watching import places_of
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.patches.installer import Installer
from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.engine.state import MendingState
from tests.faults.planted import (
    KINDS,
    OF_ERRORS,
    PASSING,
    Fault,
    places,
    surroundings,
    warnings_of_ours,
)

PLAIN = Program(
    "if x.sum() > 0:\n    x = x * 2\nfor i in range(2):\n    x = x + i\nreturn x", mends="where"
)
"""For seams without a program of their own."""


def all_seams() -> list[Seam]:
    seams = session._seams(MendingState())
    assert isinstance(seams, Installer)
    return [seam for seam in seams.all() if seam.replaced and places_of(seam)]


SEAMS = [seam for seam in all_seams() if not seam.contains_itself]


def name_of(seam: Seam) -> str:
    return f"{seam.owner.rpartition('.')[2]}.{seam.names[0]}-{seam.label.rpartition('.')[2][:-1]}"


def program_of(seam: Seam) -> Program:
    program = PROGRAMS.get(seam.label)
    return PLAIN if program is None or not _can_run(program, quick=False) else program


def faulty(ours: Callable[..., Any], fault: Fault, after: bool) -> Callable[..., Any]:
    """A function of ours that raises before it does anything, or when it has done all."""
    before, last = (lambda: None, fault.strike) if after else (fault.strike, lambda: None)
    scope = {"before": before, "ours": ours, "last": last}
    source = "def call(*args, **kwargs):\n    before()\n    found = ours(*args, **kwargs)\n    last()\n    return found"
    exec(compile(source, f"{OURS}planted.py", "exec"), scope)
    return functools.wraps(ours)(scope["call"])  # type: ignore[arg-type]


def with_fault(seam: Seam, fault: Fault, after: bool) -> Seam:
    """The same seam, at which an error is raised."""

    def make(stock: Any) -> Any:
        ours = seam.make(stock)
        if ours is stock:
            return ours
        if dataclasses.is_dataclass(ours):
            fields = {f.name: getattr(ours, f.name) for f in dataclasses.fields(ours)}
            spoilt = {n: faulty(f, fault, after) for n, f in fields.items() if callable(f)}
            return dataclasses.replace(ours, **spoilt)  # type: ignore[type-var]
        return faulty(ours, fault, after)

    return dataclasses.replace(seam, make=make)


@contextmanager
def mending(seam: Seam, fault: Fault, after: bool) -> Iterator[MendingState]:
    """Mending with a fault at a seam; all else is as it was afterwards."""
    known, state = Installer.all, session.new_state(mends=True)

    def every(self: Installer) -> tuple[Seam, ...]:
        found = known(self)
        return tuple(with_fault(s, fault, after) if s.label == seam.label else s for s in found)

    torch._dynamo.reset()
    before, around = places(), surroundings()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Installer, "all", every)
        with session.mending_by(state):
            yield state
    assert places() == before
    assert surroundings() == around


def assert_right(program: Program) -> None:
    """What it gives is eager Python's in each call, or what stock makes of that."""
    found = program._run(compiles=True)
    allowed = zip(program._run(compiles=False), *of_stock(program), strict=True)
    assert [pair for one, pair in zip(found, allowed, strict=True) if one not in pair] == []


@cache
def of_stock(program: Program) -> list[list[object]]:
    """What stock torch.compile makes of its calls, and makes of them when it has met them before."""
    assert not gm.is_enabled()
    torch._dynamo.reset()
    return [program._run(compiles=True) for _ in range(2)]


def check(seam: Seam, kind: type[Exception], always: bool, after: bool) -> None:
    program, fault = program_of(seam), Fault(kind, always)
    of_stock(program)
    with warnings_of_ours() as warned, mending(seam, fault, after) as state:
        assert_right(program)
        assert_right(program)
        declined = [each for each in state.report.declines if each.reason in OF_ERRORS]
        assert len(warned) == len(declined) or (not declined and len(warned) == 1)
        if not always:
            assert program.fault(state) == ""
    assert bool(warned) == bool(fault.raised)
    assert always or len(warned) <= 1


def check_passing(seam: Seam, kind: type[BaseException], after: bool) -> None:
    program, fault = program_of(seam), Fault(kind, always=False)
    of_stock(program)
    with warnings_of_ours() as warned, mending(seam, fault, after) as state:
        caught = list[BaseException]()
        try:
            program._run(compiles=True)
        except kind as error:
            caught.append(error)
        assert [error.args for error in caught] == [("planted",)] * fault.raised
        assert_right(program)
        assert program.fault(state) == ""
    assert warned == []


@pytest.mark.parametrize("seam", SEAMS, ids=name_of)
def test_an_error_at_a_seam(seam: Seam) -> None:
    number = SEAMS.index(seam)
    check(seam, KINDS[number % len(KINDS)], always=number % 3 > 0, after=number % 2 > 0)


@pytest.mark.nightly
@pytest.mark.parametrize("seam", SEAMS, ids=name_of)
def test_every_error_at_a_seam(seam: Seam) -> None:
    for kind, always, after in itertools.product(KINDS, (True, False), (True, False)):
        check(seam, kind, always, after)


@pytest.mark.nightly
@pytest.mark.parametrize("seam", SEAMS, ids=name_of)
def test_an_interrupt_at_a_seam(seam: Seam) -> None:
    for kind, after in itertools.product(PASSING, (True, False)):
        check_passing(seam, kind, after)


def test_seams_that_contain_their_errors_themselves() -> None:
    """What runs in every call has no frame of ours around it."""
    found = {seam.names[0] for seam in all_seams() if seam.contains_itself}
    assert found == {"_callback_from_stance", "_is_skip_guard_eval_unsafe_stance"}


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + 1


@pytest.mark.parametrize("question", ["is_awaited", "needs_guards"])
def test_an_error_under_a_stance(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> bool:
        raise RuntimeError("planted")

    monkeypatch.setattr(MendingState, question, fail)
    x, state = torch.ones(2), session.new_state(mends=True)
    compiled = torch.compile(branching, backend="eager")
    with warnings_of_ours() as warned, session.mending_by(state):
        compiled(x)
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            assert torch.equal(compiled(x), branching(x))
        with torch.compiler.set_stance("fail_on_recompile"):
            assert torch.equal(compiled(x), branching(x))
            with pytest.raises(RuntimeError, match="recompile"):
                compiled(torch.ones(3, dtype=torch.float64))
    assert warned


def test_mending_goes_on_after_an_error_in_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: MendingState) -> None:
        raise RuntimeError("planted")

    compiled = torch.compile(branching, backend="eager")
    with warnings_of_ours() as warned, gm.enabled():
        with monkeypatch.context() as patch:
            patch.setattr(MendingState, "forget", fail)
            torch._dynamo.reset()
        assert torch.equal(compiled(torch.ones(2)), branching(torch.ones(2)))
        assert [mend.strategy for mend in gm.report().mends] == ["where"]
    assert len(warned) == 1
