"""Where the text of a deferred call goes: streams, loggers with their handlers, `showwarning`.

A program may put objects of its own there, whose code runs in the call.
"""

from __future__ import annotations

import functools
import io
import logging
import sys
import types
import warnings
from typing import Any, Final

from graphmend_bc.runtime.deferral.reach import Reach, reach

_FILES: Final = (io.FileIO, io.BytesIO)
_HANDLERS: Final = frozenset(
    (
        *(logging.StreamHandler, logging.FileHandler, logging.NullHandler),
        type(logging.lastResort),
    )
)
_OF_HANDLER: Final = frozenset(
    (
        *("_builtin_open", "_closed", "_name", "baseFilename", "delay", "encoding", "errors"),
        *("filters", "formatter", "level", "lock", "mode", "stream"),
    )
)
_OF_LOGGER: Final = frozenset(
    (
        *("_cache", "disabled", "filters", "handlers", "level", "manager", "name", "parent"),
        "propagate",
    )
)
_OF_ADAPTER: Final = frozenset(("extra", "logger", "merge_extra"))
_OF_FORMATTER: Final = frozenset(("_fmt", "_style", "datefmt"))
"""The attributes that such an object has if nobody has given it others."""


def _methods() -> tuple[Any, ...]:
    """Methods by which a record goes; tools that observe programs put others in their place.

    Written out, because it is asked before each call, where a loop over names takes 5 us more.
    """
    return (
        logging.Filterer.filter,
        logging.Formatter.format,
        logging.Formatter.formatMessage,
        logging.Formatter.formatTime,
        logging.Handler.acquire,
        logging.Handler.format,
        logging.Handler.handle,
        logging.Handler.release,
        logging.FileHandler.emit,
        logging.Logger._log,
        logging.Logger.callHandlers,
        logging.Logger.findCaller,
        logging.Logger.handle,
        logging.Logger.makeRecord,
        logging.LoggerAdapter.log,
        logging.LoggerAdapter.process,
        logging.LogRecord.__init__,
        logging.LogRecord.getMessage,
        logging.NullHandler.handle,
        logging.StreamHandler.emit,
        logging.StreamHandler.flush,
    )


def _are_of_logging(methods: tuple[Any, ...]) -> bool:
    return all(getattr(method, "__globals__", None) is vars(logging) for method in methods)


_OWN: Final = methods if _are_of_logging(methods := _methods()) else None
"""The standard library's own; None where another tool was faster."""

_WARNINGS: Final = ("warnings", "_py_warnings")
_LOG_ONCE: Final = ("transformers.utils.logging",)
"""Modules whose cached methods of loggers do nothing but log."""


def targets_of(module: str, owner: object, stream: object) -> list[object]:
    """The objects whose code a call runs, besides what it was given.

    Args:
        module: of what is called, which is known to only observe.
        owner: the object whose method it is; None for a plain function.
        stream: the stream that it was given; None for the usual one.
    """
    if module in ("warnings", "_warnings"):
        shown = getattr(warnings, "_showwarnmsg_impl", None)
        return [warnings.showwarning, warnings.formatwarning, shown, sys.stderr]
    if module == "logging":
        return [logging.root if owner is None else owner]
    if module == "absl.logging":
        return [logging.getLogger("absl"), *logging.getLogger("absl").handlers]
    if module.startswith("tqdm."):
        return _of_bar(owner, stream)
    if owner is None or isinstance(owner, type):
        return [sys.stdout if stream is None else stream]
    return [owner]


def _of_bar(bar: object, stream: object) -> list[object]:
    """What a bar writes to; what is not known is usual."""
    kind = bar if isinstance(bar, type) else type(bar)
    own = [] if bar is None or kind.__module__.startswith("tqdm.") else [bar]
    stream = getattr(bar, "fp", stream)
    usual = [sys.stdout, sys.stderr] if stream is None else []
    return [*own, *usual, getattr(stream, "_wrapped", stream)]  # one of tqdm's own is around it


def only_writes(target: Any) -> bool:
    """Whether a target is one of the standard library's that do nothing but write.

    Args:
        target: from `targets_of`.

    Example:
        >>> only_writes(io.StringIO())
        True
    """
    kind = type(target)
    if kind is io.TextIOWrapper:
        if not vars(target).keys() <= {"mode"}:
            return False
        file = target.buffer
        if type(file) in (io.BufferedWriter, io.BufferedRandom):
            file = file.raw
        return type(file) in _FILES
    if kind is io.StringIO:
        return not vars(target)
    if kind is logging.LoggerAdapter:
        return vars(target).keys() <= _OF_ADAPTER and only_writes(target.logger)
    if kind in (logging.Logger, logging.RootLogger):
        return _logger_only_writes(target)
    if kind in _HANDLERS:
        return _handler_only_writes(target)
    if kind is types.FunctionType:
        return target.__globals__.get("__name__") in _WARNINGS
    if kind is types.MethodType:
        return _logs_once(target.__func__) and only_writes(target.__self__)
    return target is None


def _logger_only_writes(logger: logging.Logger) -> bool:
    methods = _methods()
    if methods != _OWN and not _are_of_logging(methods):
        return False
    if logging.getLogRecordFactory() is not logging.LogRecord:
        return False
    above: logging.Logger | None = logger
    if not logger.hasHandlers() and not only_writes(logging.lastResort):
        return False
    while above is not None:
        if not isinstance(above, logging.Logger) or not vars(above).keys() <= _OF_LOGGER:
            return False
        if type(above) not in (logging.Logger, logging.RootLogger) or (
            above is logger and above.filters
        ):
            return False
        if not all(map(only_writes, above.handlers)):
            return False
        above = above.parent if above.propagate else None
    return True


def _handler_only_writes(handler: Any) -> bool:
    own = vars(handler)
    if handler.filters or not own.keys() <= _OF_HANDLER | {"flush"}:
        return False
    if "flush" in own and not _is_flush_of_stream(own["flush"]):
        return False
    if (formatter := handler.formatter) is not None:
        kept = type(formatter) is logging.Formatter and vars(formatter).keys() <= _OF_FORMATTER
        if not kept or getattr(formatter._style, "_defaults", None):
            return False
    return only_writes(getattr(handler, "stream", None))


def _logs_once(function: Any) -> bool:
    """Whether it is a method that logs each message once, as transformers gives to `Logger`."""
    if type(function) is not functools._lru_cache_wrapper:
        return False
    code = getattr(function, "__wrapped__", None)
    return type(code) is types.FunctionType and code.__globals__.get("__name__") in _LOG_ONCE


def _is_flush_of_stream(function: Any) -> bool:
    """Whether it is a stream's own `flush`, which transformers gives its handler."""
    is_own = type(function) is types.BuiltinMethodType and function.__name__ == "flush"
    return is_own and only_writes(function.__self__)


def reach_of(targets: list[object]) -> Reach:
    """What may be reached from targets."""
    return reach(target for target in targets if target is not None)
