"""Each seam has a tiny program that reaches it and, where nothing else does its work, needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import graphmend_bc as gm
from graphmend_bc.canary import check
from graphmend_bc.canary.check import PROGRAMS, Finding, findings
from graphmend_bc.canary.effects import shows_absence
from graphmend_bc.canary.program import Program
from graphmend_bc.contrib.load import extensions
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.patches import installer
from graphmend_bc.dynamo.patches.seam import ABSENT, Seam, SeamPlace, register_seam
from graphmend_bc.dynamo.patches.table import SEAMS
from graphmend_bc.engine.state import MendingState

ALL = (
    *installer._of_state(
        MendingState(), lambda *args: None, installer._Switch(), lambda *args: None
    ),
    *SEAMS,
    *(seam for extension in extensions() for seam in extension.seams),
)
REPLACED = [seam for seam in ALL if seam.replaced]
ALONE = [seam for seam in REPLACED if shows_absence(seam.label)]
TOGETHER = [seam for seam in REPLACED if not shows_absence(seam.label)]


@pytest.fixture(autouse=True)
def off() -> Iterator[None]:
    gm.disable()
    yield
    gm.disable()


def label(seam: Seam) -> str:
    return seam.label


def test_each_seam_has_one_program() -> None:
    labels = [seam.label for seam in ALL if seam.replaced]
    assert len(set(labels)) == len(labels)
    assert set(labels) <= set(PROGRAMS)


@pytest.mark.slow
@pytest.mark.parametrize("seam", [seam for seam in ALL if seam.replaced], ids=label)
def test_is_reached_and_has_its_effect(seam: Seam) -> None:
    (found,) = findings(only=seam.label)
    assert found.ran or PROGRAMS[seam.label].needs
    assert found.reached or not found.ran
    assert found.fault == ""
    assert found.holds


@pytest.mark.slow
@pytest.mark.parametrize("seam", ALONE, ids=label)
def test_the_program_shows_that_it_is_not_there(seam: Seam) -> None:
    found = without(seam)
    assert found.fault or not found.ran


@pytest.mark.skipif(
    not facts.HAS_SLOTS or facts.HAS_ATTRIBUTE_TABLES,
    reason="In some releases of torch one of these programs shows more than it claims.",
)
@pytest.mark.parametrize("seam", TOGETHER, ids=label)
def test_the_program_does_not_claim_to_show_it(seam: Seam) -> None:
    assert without(seam).fault == ""


def without(seam: Seam) -> Finding:
    """What a seam's program finds where the seam is not put in."""
    staying: list[tuple[SeamPlace, object]] = []
    if seam.stays:
        staying = [(place, place.value()) for place in seam.places()]
    try:
        for place, value in staying:
            place.put(getattr(value, "__wrapped__", ABSENT))
        (found,) = findings(only=seam.label, without=seam.label)
        return found
    finally:
        for place, value in staying:
            place.put(value)


def test_a_seam_that_is_gone_around_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seam = Seam("torch._dynamo.utils", ("same",), lambda stock: stock, "nothing calls this")
    monkeypatch.setattr(check, "PROGRAMS", {**PROGRAMS, seam.label: Program("return x * 2")})
    registration = register_seam(seam)
    try:
        (found,) = findings(only=seam.label)
    finally:
        registration.remove()
    assert not found.reached
    assert not found.holds


@pytest.mark.slow
def test_what_is_found_quickly_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check.bypassed.cache_clear()
    assert check.bypassed() == {}
    monkeypatch.setattr(check, "findings", None)
    assert check.bypassed() == {}
