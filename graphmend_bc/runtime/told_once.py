"""Errors of ours while a program runs: they are told of once, and something simpler is done."""

from __future__ import annotations

import logging
from functools import lru_cache

from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")


def told_once(what: str, error: Exception) -> None:
    """Log a warning, unless it was logged before.

    Args:
        what: is done instead, after the name of the library.
        error: why; what a signal's handler raised is raised again.
    """
    pass_on(error)
    _tell(f"graphmend_bc {what}, because of an error of its own: {error!r}")


@lru_cache(maxsize=64)
def _tell(text: str) -> None:
    log.warning("%s", text)
