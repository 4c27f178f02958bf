"""Compilations that failed checks cause: their time is put down to the site that caused them."""

from __future__ import annotations

from collections.abc import Iterable
from types import CodeType

from graphmend_bc.dynamo.rollback.eager_fallback import charge_to
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.speculation_stats import History
from graphmend_bc.runtime import Site, identity_of


def charge_recompilation(state: MendingState, code: CodeType) -> None:
    """A frame is being compiled, perhaps because what it was compiled to was thrown away.

    Args:
        state: what is known across frames.
        code: the frame's own code.
    """
    with state.lock:
        counts = state.frames.get(identity_of(code))
        if counts is not None and counts.cause is not None:
            _charge_to(state, counts.cause)
            counts.cause = None


def charge_version(
    state: MendingState, code: CodeType, values: Iterable[tuple[Site, bool]]
) -> None:
    """A frame is being compiled for values of guarded conditions, perhaps for one value more.

    Args:
        state: what is known across frames.
        code: the frame's own code.
        values: the conditions with their values.
    """
    with state.lock:
        site = state.counts_of(code).note_version(values)
        if site is not None:
            _charge_to(state, site)


def _charge_to(state: MendingState, site: Site) -> None:
    charge_to(state.history.setdefault(site, History()).note_recompiled)
