"""What is told where a frame is left to stock because mending it failed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType

from graphmend_bc.dynamo.frames.internal_errors import InternalError, is_too_deep
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import reference
from graphmend_bc.reporting.report import Decline
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.signal_handlers import pass_on
from graphmend_bc.runtime.told_once import told_once

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
    shown: Exception | None = None
    if isinstance(error, InternalError):
        why, refused, shown = "of an error of its own", error.refused, error
        if is_too_deep(error):
            why, shown = "its calls are nested too deep to be traced with mending", None
            error = error.failure
    else:
        why = "tracing its rewritten code failed"
        refused = Refused("does-not-compile", f"{type(error).__name__}: {_said(error)}")
    if _is_new(state, Decline.of(refused, place or start)):
        log.warning(
            "graphmend_bc leaves %s as it is, because %s: %r (%s)",
            start,
            why,
            error,
            reference(refused.reason.code),
            exc_info=shown,
        )


def report_error(state: MendingState, code: CodeType | None, error: Exception) -> None:
    """Tell of an error of ours after which stock goes on by itself.

    Args:
        state: for the report.
        code: of the frame that is compiled, if one is.
        error: what we raised; an `InternalError` was told already.
    """
    if isinstance(error, InternalError):
        return
    what = "torch to itself" if code is None else f"{code.co_qualname} as it is"
    try:
        if code is not None:
            report_failure(state, site_of(code, 0), InternalError(error))
            return
    except Exception as another:  # it is what reports that fails
        pass_on(another)
    told_once(f"leaves {what}", error)


@contextmanager
def errors_reported(state: MendingState, code: CodeType) -> Iterator[None]:
    """A block on which no result depends: an error of ours in it is told of, and that is all.

    Args:
        state: for the report.
        code: of the frame that it is about.
    """
    try:
        yield
    except Exception as error:
        pass_on(error)
        report_error(state, code, error)


def _is_new(state: MendingState, decline: Decline) -> bool:
    """Whether a decline was not reported yet; if it cannot be, that is all that is logged."""
    try:
        return state.note_decline(decline)
    except Exception as error:
        told_once(f"does not report that it leaves {decline.site} as it is", error)
        return False


def _said(error: Exception) -> str:
    """The beginning of an error's text; that of a backend names the backend first."""
    return " ".join(str(error).strip().split("\n")[:2])
