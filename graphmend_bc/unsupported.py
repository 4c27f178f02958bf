"""What switches mending on and asks about it, where this Python or torch is refused.

The modules that touch torch cannot even be imported with every torch, so these functions take the
place of those in `session`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from graphmend_bc.reporting.report import Report
from graphmend_bc.setting_checks import ON_ERROR, OnError, checked
from graphmend_bc.versions import UnsupportedVersionError, check_versions, told_once

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class _Refused:
    """Why nothing was switched on; empty before somebody tries."""

    why: str = ""


_refused = _Refused()


class Handle:
    """What `enable()` returns: there is nothing to switch off."""

    def remove(self) -> None:
        """Do nothing."""


def enable(*, cache: bool = True, on_error: OnError = "raise") -> Handle:
    """As `session.enable`, which is refused.

    Args:
        cache: not used.
        on_error: "warn" to leave the program as it is, with one warning.

    Raises:
        UnsupportedVersionError: why, unless `on_error` is "warn".
    """
    on_error = checked(ON_ERROR, "The argument on_error of enable()", on_error)
    try:
        check_versions()
    except UnsupportedVersionError as error:
        if on_error == "raise":
            raise
        _refused.why = told_once(error)
    return Handle()


@contextmanager
def enabled(*, cache: bool = True, on_error: OnError = "raise") -> Iterator[Handle]:
    """As `session.enabled`; its arguments are those of `enable`."""
    yield enable(cache=cache, on_error=on_error)


def disable() -> None:
    """Nothing is on."""


def is_enabled() -> bool:
    """False."""
    return False


def report() -> Report:
    """An empty report that says why."""
    return Report(refused=_refused.why)


def reset() -> None:
    """There is nothing to forget."""


def leave_alone(function: F | None = None, *, reason: str = "") -> F | Callable[[F], F]:
    """As `session.leave_alone`: the function, or a decorator; nothing would be rewritten."""
    return function if function is not None else lambda found: found


def rewrite(function: F, *, branches: bool = True, effects: bool = True) -> F:
    """As `session.rewrite`: nothing is rewritten."""
    return function
