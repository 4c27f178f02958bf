"""What a program shows by `print` and loggers while a call of it is being compared."""

from __future__ import annotations

import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from graphmend_bc.runtime.told_once import told_once


@dataclass(slots=True)
class Heard:
    """What was noted of a call.

    Attributes:
        shown: what it printed and logged.
        problem: why it cannot be compared; empty if it can.
    """

    shown: list[str] = field(default_factory=list)
    problem: str = ""


class _Listening(threading.local):
    heard: Heard | None = None


_listening = _Listening()


@contextmanager
def listening() -> Iterator[Heard]:
    """A block in which it is noted what deferred calls of this thread show."""
    before, _listening.heard = _listening.heard, Heard()
    try:
        yield _listening.heard
    finally:
        _listening.heard = before


def told_of_shown(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; what it shows is noted by `listening`, and is shown."""

    @functools.wraps(run)
    def call(*args: Any, **kwargs: Any) -> Any:
        if (heard := _listening.heard) is None:
            return run(*args, **kwargs)
        with ExitStack() as block:
            try:
                block.enter_context(noted(heard.shown, passes=True))
            except Exception as error:
                told_once("does not compare a call", error)
                heard.problem = "What it shows was not noted."
            return run(*args, **kwargs)

    return call


def told_of_rerun(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which runs original code; `listening` notes that."""

    @functools.wraps(run)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _listening.heard is not None:
            _listening.heard.problem = "A check failed, so that the original code ran."
        return run(*args, **kwargs)

    return call


@contextmanager
def noted(shown: list[str], *, passes: bool) -> Iterator[None]:
    """A block in which what this thread writes to standard output, and logs, is noted.

    What it writes to standard error is not: warnings of torch's own come once.

    Args:
        shown: the list to which it is added.
        passes: whether it is shown as well.
    """
    thread, out, err = threading.get_ident(), sys.stdout, sys.stderr
    handle = logging.Logger.handle

    def note_record(logger: logging.Logger, record: logging.LogRecord) -> None:
        is_own = threading.get_ident() == thread
        if is_own:
            shown.append(f"{record.levelname} of {record.name}: {record.getMessage()}\n")
        if passes or not is_own:
            handle(logger, record)

    sys.stdout, sys.stderr = _Noted(out, thread, shown, passes), _Noted(err, thread, [], passes)
    loggers: Any = logging.Logger
    loggers.handle = note_record
    try:
        yield
    finally:
        loggers.handle = handle
        sys.stdout, sys.stderr = out, err


class _Noted:
    """A stream; what one thread writes to it is noted."""

    def __init__(self, stream: Any, thread: int, shown: list[str], passes: bool) -> None:
        self._stream = stream
        self._thread = thread
        self._shown = shown
        self._passes = passes

    def write(self, text: str) -> int:
        """As the stream's own."""
        is_own = threading.get_ident() == self._thread
        if is_own:
            self._shown.append(text)
        return int(self._stream.write(text)) if self._passes or not is_own else len(text)

    def flush(self) -> None:
        """As the stream's own, if it is written to."""
        if self._passes or threading.get_ident() != self._thread:
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
