"""Decisions as JSON: what is written is read again, and anything else is told apart."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from graphmend_bc.engine.decisions.check_outcomes import CheckOutcomes
from graphmend_bc.engine.decisions.decisions import BadDecisionsError, Subject, decoded, encoded
from graphmend_bc.engine.decisions.proven_plan import Proven
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.rewriting.plan import Plan
from graphmend_bc.rules.registry import candidates_at
from graphmend_bc.rules.rule import BreakSite
from tests.engine.test_survey_policy import branching, jump_of

CODE = branching.__code__
SUBJECT = Subject(CODE, {})
JUMP = jump_of(branching)
SITE = site_of(CODE, JUMP)


def proven(rule: str = "where") -> Proven:
    (found,) = (c for c in candidates_at(BreakSite(CODE, JUMP)) if c.rule.name == rule)
    plan = Plan().with_all(found.rewrites)
    return Proven(
        plan, {SITE: "Data-dependent branching"}, {SITE: ("alias-escapes",)}, CheckOutcomes()
    )


@pytest.mark.parametrize("rule", ["where", "cond", "speculate"])
def test_what_is_written_is_read_again(rule: str) -> None:
    text = encoded(proven(rule), SUBJECT)
    assert text is not None
    again = decoded(text, SUBJECT)
    assert again.plan == proven(rule).plan
    assert again.gb_types == {SITE: "Data-dependent branching"}
    assert again.refused == {SITE: ("alias-escapes",)}


def changed(change: Callable[[dict[str, object]], object]) -> str:
    text = encoded(proven(), SUBJECT)
    assert text is not None
    entry = json.loads(text)
    change(entry)
    return json.dumps(entry)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda entry: entry.update(format=0), "another format"),
        (lambda entry: entry.pop("decisions"), "no object with a format and decisions"),
        (lambda entry: entry.update(more=1), "no object with a format and decisions"),
        (lambda entry: entry["decisions"][0].update(offset=JUMP + 1), "No instruction starts"),
        (lambda entry: entry["decisions"][0].update(offset=0), "is no rule at byte 0"),
        (lambda entry: entry["decisions"][0].update(rule="none"), "'none' is no rule"),
        (lambda entry: entry["decisions"][0].update(rule=3), "has another form"),
        (lambda entry: entry["decisions"][0].update(refused=["none"]), "has another form"),
        (lambda entry: entry["decisions"][0].pop("gb_type"), "has another form"),
        (
            lambda entry: entry["decisions"].append({**entry["decisions"][0], "rule": "cond"}),
            "two decisions on byte",
        ),
        (lambda entry: entry.update(outcomes=[]), ""),
    ],
)
def test_anything_else_is_no_plan(change: Callable[[dict[str, object]], object], said: str) -> None:
    with pytest.raises(BadDecisionsError, match=said):
        decoded(changed(change), SUBJECT)


@pytest.mark.parametrize("text", ["", "{", "[]", b"\xff", "[" * 100_000])
def test_no_json_at_all(text: str | bytes) -> None:
    with pytest.raises(BadDecisionsError):
        decoded(text, SUBJECT)


def test_a_rule_that_is_off_is_not_read() -> None:
    text = encoded(proven(), SUBJECT)
    assert text is not None
    (need,) = candidates_at(BreakSite(CODE, JUMP))[0].rule.needs
    with pytest.raises(BadDecisionsError, match="'where' is no rule"):
        decoded(text, Subject(CODE, {need: "has no f"}))
