"""Lines that settings leave unmended are as stock has them, whatever would mend them."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

PROGRAM = """
import numpy
seen = []

def f(x):
    print("sum", x.sum())
    seen.append(x.sum().item())
    if x.sum() > 0:
        x = x * 2
    return x + numpy.random.rand()
"""
LINES = {5: "defer", 6: "accumulate", 7: "where", 9: "draw"}
CALLS = [torch.ones(3), -torch.ones(3)]


def mended(**settings: tuple[str, ...]) -> set[int]:
    """The lines that are mended."""
    with gm.config.patch(settings):
        outcome = check(PROGRAM, CALLS, mends=None, declines=None, breaks=None, orders=1)
    return {int(mend.split("@")[1]) for mend in outcome.mends.split()}


def test_all_of_them_are_mended_without_the_settings() -> None:
    assert mended() == {*LINES}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_left(line: int) -> None:
    assert mended(sites_off=(f"<program>:{line}",)) == {*LINES} - {line}


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_a_line_alone_is_mended(line: int) -> None:
    assert mended(sites_only=(f"<program>:{line}",)) <= {line}


def test_no_line_is_mended() -> None:
    assert mended(sites_only=("nothing:0",)) == set()


def test_the_decline_names_the_setting() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    place = f"test_left_places.py:{f.__code__.co_firstlineno + 1}"
    with gm.config.patch(sites_off=(place,)):
        found = gm.explain(f)(torch.ones(2))
    ((reason, text),) = [(d.reason, d.explanation) for d in found.declines]
    assert reason == "strategy-off"
    assert text.endswith("Its line is left out by graphmend_bc.config.sites_off.")
    assert not found.mends
    assert gm.explain(f)(torch.ones(2)).mends
