"""Sites that rules plan when a code object is first met, although no graph breaks there."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import CodeType

from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.rewriting.plan import Rewrite
from graphmend_bc.rules.registry import all_rules, is_on
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.left_places import left_by


def expected(
    code: CodeType, without: Container[Site], lost: Mapping[str, str]
) -> dict[int, Rewrite]:
    """What the rules plan in a code object from the start.

    Args:
        code: as CPython compiled it.
        without: sites at which that was no use.
        lost: as for `is_on`.
    """
    found: dict[int, Rewrite] = {}
    for rule in all_rules():
        if rule.expects is None or not is_on(rule, lost):
            continue
        for offset in rule.expects(code):
            candidate, site = rule.at(BreakSite(code, offset)), site_of(code, offset)
            if left_by(site.filename, site.lineno):
                continue
            if candidate is not None and site not in without:
                found |= candidate.rewrites
    return found


def is_expected(rewrite: Rewrite | None) -> bool:
    """Whether what is planned for an instruction was planned from the start."""
    return rewrite is not None and any(
        rule.name == rewrite.rule and rule.expects is not None for rule in all_rules()
    )
