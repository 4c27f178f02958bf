"""The rules that are in force: those of this folder, and those that were registered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from operator import attrgetter
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, Final

import graphmend_bc.rules as room
from graphmend_bc import config
from graphmend_bc.catalog.unsupported_breaks import LEFT, PARTLY
from graphmend_bc.registration import Registration, Registry
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rules.rule import BreakSite, Candidate, Rule
from graphmend_bc.runtime.left_places import left_by

NOTHING_LOST: Final[Mapping[str, str]] = MappingProxyType({})
_NOT_RULES = frozenset({"registry", "rule"})

BUILT_IN: tuple[Rule, ...] = tuple(
    rule
    for module in iter_modules(room.__path__)
    if module.name not in _NOT_RULES
    for rule in import_module(f"{room.__name__}.{module.name}").RULES
)
"""Those of each file in this folder."""

_registered = Registry[Rule]()


def register_rule(rule: Rule) -> Registration:
    """Mend breaks by a rule of the user's; frames compiled from now on try it.

    Args:
        rule: its name must not be one of ours.

    Returns:
        A handle; `handle.remove()` takes the rule out again.

    Raises:
        TypeError: it is no rule.
        ValueError: the name is taken.

    Example:
        >>> from graphmend_bc import MarkCallee, Rule, register_rule
        >>> def matches(site):
        ...     return {site.offset: MarkCallee()} if site.callee == "my_log" else None
        >>> handle = register_rule(Rule("my-log", "defer", 4, matches, handler="defer"))
        >>> handle.remove()
    """
    if not isinstance(rule, Rule):
        raise TypeError(f"A rule is expected, an object of graphmend_bc.Rule; this is {rule!r}.")
    if rule.name in {known.name for known in all_rules()}:
        raise ValueError(f"There is a rule named {rule.name!r} already; choose another name.")
    return _registered.add(rule)


def all_rules() -> tuple[Rule, ...]:
    """Every rule, the cheapest first."""
    return tuple(sorted((*BUILT_IN, *_registered), key=attrgetter("cost")))


def handlers() -> dict[str, Callable[..., Any]]:
    """What the rules make of the primitives that they mark, by the rules' names."""
    known = {rule.name: rule.handler for rule in all_rules() if rule.handler is not None}
    found = {name: known.get(h) if isinstance(h, str) else h for name, h in known.items()}
    return {name: handler for name, handler in found.items() if callable(handler)}


def candidates_at(site: BreakSite, lost: Mapping[str, str] = NOTHING_LOST) -> tuple[Candidate, ...]:
    """The rules that know a break, the cheapest first, as far as they are on.

    Args:
        site: the break.
        lost: as for `is_on`.

    Raises:
        Refused: there is none, or the settings leave the place as it is.
    """
    location = site.op.location
    line = (location.lineno if location is not None else None) or 0
    if setting := left_by(site.code.co_filename, line):
        raise Refused("strategy-off", f"Its line is left out by graphmend_bc.config.{setting}.")
    found = [here for rule in all_rules() if (here := rule.at(site)) is not None]
    if not found:
        known = LEFT.get(site.gb_type) or PARTLY.get(site.gb_type, "")
        if site.is_call:
            raise Refused("call-not-traced", known)
        raise Refused("unhandled-instruction", known or f"The instruction is {site.op.name}.")
    allowed = tuple(here for here in found if is_on(here.rule, lost))
    if not allowed:
        for here in found:
            if (why := _lost_by(here.rule, lost)) is not None:
                raise Refused("torch-differs", f"It {why}.")
        rule = found[-1].rule
        is_listed = rule.strategy in config.strategies
        what = f"rule {rule.name!r} is" if is_listed else f"strategy {rule.strategy!r} is not"
        where = "rules_off" if is_listed else "strategies"
        raise Refused("strategy-off", f"The {what} in graphmend_bc.config.{where}.")
    return allowed


def is_on(rule: Rule, lost: Mapping[str, str] = NOTHING_LOST) -> bool:
    """True if the settings, and this torch, let a rule mend.

    Args:
        rule: any rule.
        lost: what rules need that this torch lacks, each with what is wrong.
    """
    if rule.strategy not in config.strategies or rule.name in config.rules_off:
        return False
    return _lost_by(rule, lost) is None


def _lost_by(rule: Rule, lost: Mapping[str, str]) -> str | None:
    """What is wrong with something that a rule needs."""
    return next((lost[need] for need in sorted(_needs_of(rule)) if need in lost), None)


def _needs_of(rule: Rule) -> frozenset[str]:
    """What a rule needs; a rule of the user's that says nothing, what ours that are like it do."""
    like = [ours for ours in BUILT_IN if ours.name == rule.handler]
    if rule not in BUILT_IN and not rule.needs:
        like += [ours for ours in BUILT_IN if ours.strategy == rule.strategy]
    return rule.needs.union(*(ours.needs for ours in like))
