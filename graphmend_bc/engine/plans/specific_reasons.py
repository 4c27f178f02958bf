"""What a decline says of a break: the refusal that tells most, and hints for its kind."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from types import CodeType

from graphmend_bc.catalog.observers import OBSERVER_BREAKS
from graphmend_bc.catalog.unsupported_breaks import ENTERED, HINTS, PARTLY, REQUESTED
from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import CALLS
from graphmend_bc.rules.rule import BreakSite
from graphmend_bc.runtime import Site

_GENERAL = frozenset({"call-not-traced", "callee-not-found", "unhandled-instruction"})
"""Reasons that say no more than that Dynamo stopped there."""

_OF_ASSUMPTION = "list-not-full"


def most_specific(
    refused: Refused, before: Sequence[Refused], site: Site, found: Break | None, code: CodeType
) -> tuple[Refused, list[Refused]]:
    """The refusal that a decline tells, and those that it lists as well.

    Args:
        refused: the last one.
        before: earlier ones, of cheaper rules.
        site: the instruction.
        found: the break there, as Dynamo told it.
        code: the code object of the site.
    """
    gb_type = found.gb_type if found is not None else ""
    if refused.reason.code == _OF_ASSUMPTION:  # it says less than why anything was to be assumed
        earlier = [other for other in before if other.reason.code != _OF_ASSUMPTION]
        refused = earlier[-1] if earlier else refused
    others = [other for other in before if str(other) != str(refused)]
    if refused.reason.code in _GENERAL:
        if gb_type in REQUESTED:
            return Refused("break-requested"), []
        telling = [other for other in others if other.reason.code not in _GENERAL]
        if telling:  # an earlier refusal says more
            return _placed(telling[0], found), []
        # That calls are deferred by name matters only where something may be deferred.
        by_name = refused.reason.code == "callee-not-found"
        if not by_name or gb_type not in OBSERVER_BREAKS:
            refused, others = _of_kind(refused, site, found, code), []
    return _placed(refused, found), others


def _of_kind(refused: Refused, site: Site, found: Break | None, code: CodeType) -> Refused:
    """The same with the callee's name and what can be done about such a break."""
    gb_type = found.gb_type if found is not None else ""
    detail = refused.detail or PARTLY.get(gb_type, "")
    if refused.reason.code == "unhandled-instruction" or site.opname not in CALLS:
        detail = detail or f"The instruction is {site.opname}."
        return Refused("unhandled-instruction", detail, HINTS.get(gb_type, ()))
    break_site = BreakSite(code, site.offset, gb_type)
    called = f"'{break_site.callee}'" if break_site.callee else ""
    if called and called not in detail:
        detail = f"{called} is called{_which_is(break_site.callee, found)}. {detail}".rstrip()
    enters = code.co_name in ("__enter__", "__exit__") or code.co_filename == contextlib.__file__
    hints = ENTERED if enters else HINTS.get(gb_type, ())
    in_library = found is not None and bool(found.caller)
    if not (hints or in_library) and called and _is_dropped(break_site):
        hints = (_WAITS if break_site.callee in _WAITING else _DEFERS.format(called),)
    return Refused("call-not-traced", detail, hints)


_WAITING = frozenset({"acquire", "join", "notify", "notify_all", "release", "wait"})
"""Methods of locks, threads and the like: what they do depends on when they are called."""

_WAITS = "Call it outside the compiled function: a graph has no place at which to hold or wait."
_DEFERS = (
    "If {} changes nothing that the compiled function reads, add the function to "
    "graphmend_bc.config.effects: its calls run after the graph then."
)


def _which_is(name: str, found: Break | None) -> str:
    """The function that a library calls by a name of its own, such as `func`."""
    skipped = None if found is None else _SKIPPED.search(found.text)
    if skipped is None or skipped["qualname"].rpartition(".")[2] == name:
        return ""
    return f", which is '{skipped['module']}.{skipped['qualname']}'"


_SKIPPED = re.compile(r"module: (?P<module>[\w.]+), qualname: (?P<qualname>[\w.<>]+), skip reason:")
"""How Dynamo names a function that it was told not to trace."""


def _is_dropped(break_site: BreakSite) -> bool:
    """Whether nobody uses what a call gives."""
    after = break_site.graph.listing.ops[break_site.op.index + 1 : break_site.op.index + 2]
    return bool(after) and after[0].name == "POP_TOP"


def _placed(refused: Refused, found: Break | None) -> Refused:
    """The same with the place at which the program calls the library that the break is in."""
    if found is None or not found.caller or found.caller in refused.detail:
        return refused
    detail = f"{refused.detail} The program comes there from {found.caller}.".lstrip()
    return Refused(refused.reason.code, detail, refused.hints)
