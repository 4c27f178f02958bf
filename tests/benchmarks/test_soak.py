"""The soak: what a round calls, and that a call which differs ends it."""

from __future__ import annotations

import itertools

import pytest
import soak
import torch

import graphmend_bc as gm


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "ROUNDS", 3)
    monkeypatch.setattr(soak, "NEW_EVERY", 2)
    monkeypatch.setattr(soak, "EVERY", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("arm", ["stock", "mended"])
def test_moments(arm: str) -> None:
    torch._dynamo.reset()
    before, _ = soak.objects_alive()
    first, second = itertools.islice(soak.soak(60, arm), 2)
    gm.disable()
    each = 3 * (len(soak.SERVED) + 1) + 2
    assert (first.calls, second.calls) == (each, 2 * each)
    assert 0 < first.compilations < second.compilations
    assert second.resident > 2**27
    assert second.ours > 1000 if arm == "mended" else second.ours < before + 1000


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((torch.tensor([0.0]), "", ""), (torch.tensor([-0.0]), "", "")),
        ((None, "a", ""), (None, "b", "")),
        ((None, "", "ValueError('x')"), (None, "", "")),
        (((torch.ones(2), ["low"]), "", ""), ((torch.ones(2), []), "", "")),
    ],
)
def test_a_call_that_differs_ends_the_run(found: soak.Seen, expected: soak.Seen) -> None:
    soak.compare("f", found, found)
    with pytest.raises(SystemExit, match=r"^f: "):
        soak.compare("f", found, expected)


def test_nothing_is_a_number_only_if_both_are() -> None:
    nothing = (torch.tensor([torch.nan]), "", "")
    soak.compare("f", nothing, (torch.tensor([torch.nan]), "", ""))
