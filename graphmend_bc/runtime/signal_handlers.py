"""Exceptions that a handler of a signal raised: Python runs it wherever the signal finds it."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Iterator
from types import CodeType
from typing import Any


def handlers_error(error: BaseException) -> BaseException | None:
    """The exception that a signal's handler raised, if one did.

    Args:
        error: an exception, maybe one that torch raised in the place of the handler's.
    """
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    # Most signals are left to the process's default, which is a number.
    codes = {_code_of(each) for each in handlers if type(each) is not signal.Handlers} - {None}
    chain: list[BaseException] = []
    link: BaseException | None = error
    while codes and link is not None and all(link is not known for known in chain):
        chain.append(link)
        link = link.__cause__ or link.__context__
    return next((link for link in reversed(chain) if not codes.isdisjoint(_codes(link))), None)


def pass_on(error: BaseException) -> None:
    """Raise what a signal's handler raised: it is no answer to what was being tried.

    Args:
        error: an exception.

    Raises:
        BaseException: it, or what it was caused by, if a handler raised that.
    """
    try:
        raised = handlers_error(error)
    except Exception:  # whoever asks has an error of ours to tell of already
        raised = None
    if raised is None:
        return
    context = raised.__context__
    try:
        raise raised
    finally:
        raised.__context__ = context
        del raised, error, context  # the traceback holds this frame


def _codes(error: BaseException) -> Iterator[CodeType]:
    """The code of all frames in an exception's traceback."""
    return (frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__))


def _code_of(handler: Any) -> CodeType | None:
    """The code of a handler that is written in Python."""
    function = getattr(handler, "__func__", handler)  # a method
    function = getattr(function, "func", function)  # a partial
    called = getattr(type(function), "__call__", None)  # noqa: B004
    code = getattr(function, "__code__", None) or getattr(called, "__code__", None)
    return code if isinstance(code, CodeType) else None
