"""A plan that worked as decisions in JSON: which rule mends which site of a code object.

What a site is rewritten into is not written down. The rule itself is asked for it when the
decisions are read, as if Dynamo had met the break, so nothing can be read that no rule asks for.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from types import CodeType
from typing import Any, Final

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.engine.decisions.check_outcomes import CheckOutcomes
from graphmend_bc.engine.decisions.proven_plan import Proven
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.reporting.reasons import REASONS
from graphmend_bc.rewriting import Plan
from graphmend_bc.rules.registry import all_rules, is_on
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Site

FORMAT: Final = 1
_MOST_DECISIONS: Final = 1024
_MOST_REFUSALS: Final = 32
_LONGEST: Final = 200


class BadDecisionsError(ValueError):
    """What was read are no decisions on this code object."""


@dataclass(frozen=True, slots=True)
class KeptDecision:
    """A rule at one site.

    Attributes:
        offset: of the instruction.
        rule: the rule's name.
        gb_type: what Dynamo calls the break; empty if the site was planned before Dynamo met it.
        refused: reason codes, why no cheaper rule mends the site.
    """

    offset: int
    rule: str
    gb_type: str = ""
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subject:
    """What decisions are about.

    Attributes:
        code: an original code object.
        lost: what this torch lacks; see `is_on`.
    """

    code: CodeType
    lost: Mapping[str, str]

    def rules(self) -> dict[str, Rule]:
        """The rules that are on, by name."""
        return {rule.name: rule for rule in all_rules() if is_on(rule, self.lost)}

    def rewrites(self, decision: KeptDecision, rules: Mapping[str, Rule]) -> Rewrites:
        """What the rule of a decision asks for; nothing if it does not know the site."""
        rule = rules.get(decision.rule)
        if rule is None:
            return {}
        found = rule.at(BreakSite(self.code, decision.offset, decision.gb_type))
        return {} if found is None else found.rewrites


def encoded(proven: Proven, subject: Subject) -> str | None:
    """A plan as JSON.

    Args:
        proven: the plan.
        subject: the code object that it is of.

    Returns:
        The JSON; None if reading it would not give the same plan.
    """
    rules, plan = subject.rules(), proven.plan
    decisions = []
    for offset, rewrite in plan.items():
        site = site_of(subject.code, offset)
        refused = tuple(dict.fromkeys(proven.refused.get(site, ())))
        decision = KeptDecision(offset, rewrite.rule, proven.gb_types.get(site, ""), refused)
        asked = subject.rewrites(decision, rules)
        # A site may have several instructions; the first one of them stands for it.
        if asked and asked.items() <= plan.items():
            decisions.append(asdict(decision))
    entry: dict[str, Any] = {"format": FORMAT, "decisions": decisions}
    if proven.outcomes:
        entry["outcomes"] = proven.outcomes.to_json()
    text = json.dumps(entry)
    try:
        again = decoded(text, subject)
    except BadDecisionsError:
        return None
    return text if (again.plan, again.outcomes) == (plan, proven.outcomes) else None


def decoded(text: str | bytes, subject: Subject) -> Proven:
    """The plan that JSON tells of.

    Args:
        text: what was read; it may be anything.
        subject: the code object that it should be of.

    Raises:
        BadDecisionsError: it tells of no plan for this code object.
    """
    rules, plan = subject.rules(), Plan()
    offsets = {op.offset for op in graph_of(subject.code).listing.ops}
    gb_types, refused = {}, {}
    known = _parsed(text)
    for decision in _listed(known["decisions"]):
        if decision.offset not in offsets:
            raise BadDecisionsError(f"No instruction starts at byte {decision.offset}.")
        asked = subject.rewrites(decision, rules)
        if not asked:
            raise BadDecisionsError(f"{decision.rule!r} is no rule at byte {decision.offset}.")
        if any(plan.get(offset, rewrite) != rewrite for offset, rewrite in asked.items()):
            raise BadDecisionsError(f"There are two decisions on byte {decision.offset}.")
        plan = plan.with_all(asked)
        site = site_of(subject.code, decision.offset)
        if decision.gb_type:
            gb_types[site] = decision.gb_type
        if decision.refused:
            refused[site] = decision.refused
    return Proven(plan, gb_types, refused, _outcomes(known.get("outcomes"), subject, offsets))


def _outcomes(entry: Any, subject: Subject, offsets: Collection[int]) -> CheckOutcomes:
    def site_at(offset: int) -> Site:
        if offset not in offsets:
            raise ValueError(f"No instruction starts at byte {offset}.")
        return site_of(subject.code, offset)

    if entry is None:
        return CheckOutcomes()
    try:
        return CheckOutcomes.from_json(entry, site_at)
    except ValueError as error:
        raise BadDecisionsError(str(error)) from error


def _parsed(text: str | bytes) -> dict[str, Any]:
    try:
        known = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadDecisionsError(f"It is no JSON: {type(error).__name__}.") from error
    if type(known) is not dict or known.keys() - {"outcomes"} != {"format", "decisions"}:
        raise BadDecisionsError("It is no object with a format and decisions.")
    entries = known["decisions"]
    if known["format"] != FORMAT or type(entries) is not list or len(entries) > _MOST_DECISIONS:
        raise BadDecisionsError("It has another format, or no list of decisions.")
    return known


def _listed(entries: list[Any]) -> Iterator[KeptDecision]:
    for entry in entries:
        if not _is_decision(entry):
            raise BadDecisionsError("One of the decisions has another form.")
        yield KeptDecision(**{**entry, "refused": tuple(entry["refused"])})


def _is_decision(entry: Any) -> bool:
    if type(entry) is not dict or entry.keys() != {field.name for field in fields(KeptDecision)}:
        return False
    refused = entry["refused"]
    return (
        type(entry["offset"]) is int
        and all(_is_name(entry[name]) for name in ("rule", "gb_type"))
        and type(refused) is list
        and len(refused) <= _MOST_REFUSALS
        and all(type(code) is str and code in REASONS for code in refused)
    )


def _is_name(value: Any) -> bool:
    return type(value) is str and len(value) <= _LONGEST and value.isprintable()
