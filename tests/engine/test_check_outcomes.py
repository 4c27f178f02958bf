"""What failed checks have taught in one process is known in the next one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import graphmend_bc as gm
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.engine.decisions.check_outcomes import CheckOutcomes
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.engine.decisions.decisions import BadDecisionsError, Subject, decoded
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.reporting.report import Report
from tests.oracle import load
from tests.settling import (
    GROWING_LIST,
    SELECTED,
    TWO_FUNCTIONS,
    Counts,
    conditions_in_loop,
    live,
    signs,
)


def lives(source: str, calls: list[tuple[Any, ...]], where: Path) -> tuple[Counts, Report]:
    """What the calls cost in a process that knows what is on disk."""
    with gm.config.patch(disk_cache=True, cache_dir=str(where)):
        found = live(source, calls, 1, mends=True, decisions=DecisionCache())
    assert all(b"graphmend" not in entry.read_bytes() for entry in where.iterdir())
    return found.total, found.report


@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        (TWO_FUNCTIONS, "guarded"),
        (SELECTED, "selected"),
        (conditions_in_loop(20), "given_up"),
        (GROWING_LIST, "left"),
    ],
)
def test_what_checks_have_taught_is_not_learnt_again(
    source: str, outcome: str, tmp_path: Path
) -> None:
    calls = signs(60, 20)
    first, told = lives(source, calls, tmp_path)
    (entry,) = [json.loads(path.read_bytes()) for path in tmp_path.iterdir()]
    assert entry["outcomes"][outcome]
    again, told_again = lives(source, calls, tmp_path)
    assert again.compilations < first.compilations
    assert again.failed == 0
    assert {d.reason for d in told_again.declines} == {d.reason for d in told.declines}


def test_outcomes_are_read_as_they_were_written() -> None:
    code = load(TWO_FUNCTIONS).f.__code__
    first, second = (site_of(code, op.offset) for op in graph_of(code).listing.ops[:2])
    outcomes = CheckOutcomes(
        {first: ((0, True), (3, False)), second: ((1, True),)},
        frozenset({first}),
        {second: "hoist-varies"},
        left=True,
        selected=frozenset({second}),
        varying=frozenset({"len(G['seen']) =="}),
    )
    text = json.dumps(outcomes.to_json())
    sites = {site.offset: site for site in (first, second)}
    assert CheckOutcomes.from_json(json.loads(text), sites.__getitem__) == outcomes


LISTS: dict[str, list[object]] = {
    name: [] for name in ("flips", "guarded", "selected", "given_up", "varying")
}
GOOD = {**LISTS, "left": False}


@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        {"flips": []},
        GOOD | {"more": 1},
        GOOD | {"left": 1},
        GOOD | {"flips": {}},
        GOOD | {"flips": [[0, 0, 1]]},
        GOOD | {"flips": [[0, 0]]},
        GOOD | {"flips": [[0, 0, True]] * 1025},
        GOOD | {"guarded": [1]},
        GOOD | {"guarded": [None]},
        GOOD | {"guarded": [[0]]},
        GOOD | {"selected": [None]},
        GOOD | {"varying": [1]},
        GOOD | {"given_up": [[0, "no-such-reason"]]},
        GOOD | {"given_up": [[0, None]]},
    ],
)
def test_what_are_no_outcomes_is_no_entry(outcomes: object) -> None:
    f = load(TWO_FUNCTIONS).f
    text = json.dumps({"format": 1, "decisions": [], "outcomes": outcomes})
    with pytest.raises(BadDecisionsError):
        decoded(text, Subject(f.__code__, {}))
