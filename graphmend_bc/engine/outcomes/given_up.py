"""Conditions that are given up in a function are so in what goes on after its breaks."""

from __future__ import annotations

from types import CodeType

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.runtime import identity_of

_OF_CONDITIONS = "speculation-missed"


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
            if site.code is key and refused.reason.code == _OF_CONDITIONS
        ]
    if not found:
        return
    listing = graph_of(function).listing
    ops = ((listing.at_offset(offset), refused) for offset, refused in found)
    places = {(op.name, op.location): refused for op, refused in ops}
    with state.lock:  # other threads go through what is given up
        for op in graph_of(code).listing.ops:
            refused = places.get((op.name, op.location))
            if refused is not None:
                state.given_up.setdefault(site_of(code, op.offset), refused)
