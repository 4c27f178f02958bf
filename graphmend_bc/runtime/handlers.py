"""Exceptions that a handler of a signal raised: Python runs it wherever the signal finds it."""

from __future__ import annotations

import signal
from types import CodeType
from typing import Any


def handlers_error(error: BaseException) -> BaseException | None:
    """The exception that a signal's handler raised, if one did.

    Args:
        error: an exception, maybe raised while the handler's was handled, or because of it.
    """
    codes = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    seen = set[int]()
    found: BaseException | None = error
    while codes and found is not None and id(found) not in seen:
        seen.add(id(found))
        entry = found.__traceback__
        while entry is not None:
            if entry.tb_frame.f_code in codes:
                return found
            entry = entry.tb_next
        found = found.__cause__ or found.__context__
    return None


def pass_on(error: BaseException) -> None:
    """Raise what a signal's handler raised: it is no answer to what was being tried.

    Args:
        error: an exception.

    Raises:
        BaseException: it, or what it was caused by, if a handler raised that.
    """
    if (raised := handlers_error(error)) is None:
        return
    context = raised.__context__
    try:
        raise raised
    finally:
        raised.__context__ = context


def _code_of(handler: Any) -> CodeType | None:
    """The code of a handler that is written in Python."""
    function = getattr(handler, "__func__", handler)  # a method
    function = getattr(function, "func", function)  # a partial
    called = getattr(type(function), "__call__", None)  # noqa: B004
    code = getattr(function, "__code__", None) or getattr(called, "__code__", None)
    return code if isinstance(code, CodeType) else None
