"""What is told where a frame is left to stock because mending it failed."""

from __future__ import annotations

import logging

from graphmend_bc.dynamo.frames.internal_errors import InternalError
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import reference
from graphmend_bc.reporting.report import Decline
from graphmend_bc.runtime import Site

log = logging.getLogger("graphmend_bc")


def report_failure(
    state: MendingState, start: Site, error: Exception, place: Site | None = None
) -> None:
    """One entry in the log and one decline.

    Args:
        state: for the report.
        start: the beginning of the function that stock compiles.
        error: what tracing or compiling its rewritten code ended with, or an error of ours.
        place: the user's instruction at which that was, if it was at one.
    """
    if isinstance(error, InternalError):
        why, refused, shown = "of an error of its own", error.refused, error
    else:
        why, shown = "tracing its rewritten code failed", None
        refused = Refused("does-not-compile", f"{type(error).__name__}: {_said(error)}")
    if state.note_decline(Decline.of(refused, place or start)):
        log.warning(
            "graphmend_bc leaves %s as it is, because %s: %r (%s)",
            start,
            why,
            error,
            reference(refused.reason.code),
            exc_info=shown,
        )


def _said(error: Exception) -> str:
    """The beginning of an error's text; that of a backend names the backend first."""
    return " ".join(str(error).strip().split("\n")[:2])
