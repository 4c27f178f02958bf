"""Conditions that are given up in a function are so in what goes on after its breaks."""

from __future__ import annotations

from types import CodeType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.listing import Op
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.conditions.decision import is_condition
from graphmend_bc.runtime import identity_of

_OF_CONDITIONS = ("speculation-missed", "backend-refuses")


def carry_over(state: MendingState, code: CodeType) -> None:
    """Give up in a frame the conditions of the function that it resumes.

    Dynamo makes the frame's code of the function's, with the same positions in the source.

    Args:
        state: what is known across frames.
        code: the frame's own code; nothing happens if it resumes none.
    """
    if not state.given_up or (function := state.function_of(code)) is code:
        return
    key = identity_of(function)
    with state.lock:
        found = [
            (site.offset, refused)
            for site, refused in state.given_up.items()
            if site.code is key and refused.reason.code in _OF_CONDITIONS
        ]
    if not found:
        return
    listing = graph_of(function).listing
    ops = ((listing.at_offset(offset), refused) for offset, refused in found)
    places = {_place(op, refused): refused for op, refused in ops}
    with state.lock:  # other threads go through what is given up
        for op in graph_of(code).listing.ops:
            name = None if is_condition(op) and (None, op.location) in places else op.name
            refused = places.get((name, op.location))
            if refused is not None:
                state.given_up.setdefault(site_of(code, op.offset), refused)


def _place(op: Op, refused: Refused) -> tuple[str | None, object]:
    """What is the same in both functions.

    The condition of a loop stands before the loop and at the end of its rounds, where other
    instructions jump. What the backend makes of the loop's operator is the same for both.
    """
    of_operator = refused.reason.code == "backend-refuses"
    return (None if of_operator else op.name), op.location
