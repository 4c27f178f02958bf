"""Functions that only observe: calls of them may run later, as long as their arguments are kept.

The list is closed and goes by identity: a function of the same name that is not the one listed, or
an override in a subclass, is not known. Modules are looked up only where they are loaded already.
Users add their own functions to `graphmend_bc.config.effects`.
"""

from __future__ import annotations

import builtins
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Observer:
    """What is known of a function that only observes.

    Attributes:
        gb_type: what stock Dynamo calls the break at a call of it.
        returns_none: whether it always returns None; otherwise calls are deferred only if their
            result is dropped.
        level: the logging level of the message; None if there is none or the call gives it.
        stream: a keyword that names a stream to write to.
        stack: names of the parameter that counts stack frames, if it has one.
        raises: whether a closed stream or a filter can make the call raise.
        gradients: what becomes of a tensor with a gradient: "show" for functions that make text of
            it, "numbers" for those that read only its values, "refuse" if it is not known.
        objects: what it does with an object of the user's: "text" if it makes its text and no more,
            "read" if it is the user who says that it only reads; empty if it is not known.
        counts: whether it changes the object whose method it is.
    """

    gb_type: str
    returns_none: bool = True
    level: int | None = None
    stream: str = ""
    stack: str = ""
    raises: bool = False
    gradients: str = "show"
    objects: str = ""
    counts: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A plain text bar of tqdm.

    Attributes:
        kind: its class.
        ranged: whether it goes over `range(*args)`, as those of `trange` do.
        asks_twice: whether it asks what it goes over for an iterator when it is made, too.
    """

    kind: type
    ranged: bool = False
    asks_twice: bool = False


PRINT_BREAK = "Failed to trace builtin operator"
LOGGER_BREAK = "logging.Logger method not supported for non-export cases"
CALLED = "Attempted to call function marked as skipped"
INLINED = "Attempted to inline function marked as skipped"
ROOT_BREAK = "Unsupported python_type() call"
STREAM_BREAK = "Unsupported method call"
BAR_BREAK = CALLED
"""What stock Dynamo calls the breaks at such calls."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
}
_BARS = (("tqdm.std", "tqdm", False), ("tqdm.asyncio", "tqdm_asyncio", True))
_RANGES = ("trange", "tarange", "tnrange")
_LOGURU = ("trace", "debug", "info", "success", "warning", "error", "critical", "log")
_ABSL = ("debug", "info", "warning", "warn", "error", "log", "vlog", "log_every_n", "log_first_n")
_TQDM = ("set_postfix", "set_postfix_str", "set_description", "set_description_str")
_WRITER = ("scalar", "scalars", "histogram", "text", "image", "images", "tensor")
_LOGGERS = (logging.Logger, logging.LoggerAdapter)
_STREAMS = (io.TextIOWrapper, io.StringIO)


def _each(module: str, prefix: str, names: Iterable[str], observer: Observer) -> dict[Any, Any]:
    return {(module, prefix + name): observer for name in names}


def _logging(prefix: str, gb_type: str) -> dict[Any, Any]:
    leveled = {
        ("logging", prefix + name): Observer(
            gb_type, level=level, stack="stacklevel", objects="text"
        )
        for name, level in _LEVELS.items()
    }
    log = Observer(gb_type, stack="stacklevel", objects="text")
    return {**leveled, ("logging", prefix + "log"): log}


_NUMBERS = Observer(INLINED, gradients="numbers")
_WARN = Observer(CALLED, stack="stacklevel", raises=True, objects="text")
_COUNT = Observer(INLINED, returns_none=False, counts=True)
_PRETTY = Observer(STREAM_BREAK, stream="stream", objects="text")
_BY_NAME: Final = MappingProxyType(
    {
        **_logging("Logger.", LOGGER_BREAK),
        **_logging("LoggerAdapter.", LOGGER_BREAK),
        **_logging("", ROOT_BREAK),
        ("warnings", "warn"): _WARN,
        ("warnings", "warn_explicit"): Observer(CALLED, raises=True),
        ("pprint", "pprint"): _PRETTY,
        ("pprint", "pp"): _PRETTY,
        **_each("loguru._logger", "Logger.", _LOGURU, Observer(CALLED)),
        **_each("absl.logging", "", _ABSL, Observer(ROOT_BREAK)),
        **_each("tqdm.std", "tqdm.", (*_TQDM, "close"), Observer(INLINED, counts=True)),
        **_each("tqdm.std", "tqdm.", ("update", "refresh"), _COUNT),
        **_each("torch.utils.tensorboard.writer", "SummaryWriter.add_", _WRITER, _NUMBERS),
        **_each("tensorboardX.writer", "SummaryWriter.add_", _WRITER, _NUMBERS),
    }
)
_WRITE = Observer(STREAM_BREAK, returns_none=False, raises=True)
_CLASS_METHODS = MappingProxyType({("tqdm.std", "tqdm.write"): Observer(INLINED, stream="file")})

_CALLED_AS = {name.rsplit(".", 1)[-1] for _, name in [*_BY_NAME, *_CLASS_METHODS]}
NAMES: Final = frozenset(
    _CALLED_AS
    | {"tqdm", "trange"}
    | {"print", "write", "writelines", "flush", "warn_once", "warning_advice"}
    | {"isEnabledFor", "getEffectiveLevel", "hasHandlers"}
    | {"item", "tolist", "float", "int", "str", "repr"}
    | {f"{level}_once" for level in ("debug", "info", "warning", "error")}
)
"""Names under which observing functions are usually called."""


def observer_of(function: object, registered: Iterable[object] = ()) -> Observer | None:
    """What is known of a function, if it only observes.

    Args:
        function: any callable, bound methods included.
        registered: functions, or methods as their class has them, that a user says only observe.

    Returns:
        None if the function is not known to only observe.

    Example:
        >>> observer_of(print).stream
        'file'
    """
    if function is builtins.print:
        return Observer(PRINT_BREAK, stream="file", raises=True, objects="text")
    owner, method = getattr(function, "__self__", None), getattr(function, "__func__", function)
    for known in registered:
        if known is function or known == function or known is method:
            return Observer("", returns_none=False, gradients="refuse", objects="read")
    if isinstance(owner, _STREAMS):
        name = getattr(function, "__name__", "")
        plain = getattr(io.TextIOBase, name, None) is not None and type(owner) in _STREAMS
        return _WRITE if plain and name in ("write", "writelines", "flush") else None
    if isinstance(owner, type):
        return _listed(method, _CLASS_METHODS)
    return _listed(method, _BY_NAME) or (
        _cached(method, owner) if owner is None or isinstance(owner, _LOGGERS) else None
    )


def makes_bar(function: object) -> bool:
    """True for `tqdm` and `trange` of any kind, which make a progress bar."""
    bar = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    if bar is None:
        return False
    if isinstance(function, type):
        return issubclass(function, bar)
    module, name = getattr(function, "__module__", ""), getattr(function, "__name__", "")
    return name in _RANGES and str(module).startswith("tqdm.")


def bar_made_by(function: object) -> Bar | None:
    """The bar that a function makes, if it is a plain text bar.

    Args:
        function: one that `makes_bar`.
    """
    ranged = not isinstance(function, type)
    module = sys.modules.get(str(getattr(function, "__module__", "")))
    if ranged and all(getattr(module, name, None) is not function for name in _RANGES):
        return None
    kind = getattr(module, "tqdm", None) if ranged else function
    for place, name, asks_twice in _BARS:
        known = getattr(sys.modules.get(place), name, None)
        if isinstance(known, type) and known is kind:
            return Bar(known, ranged, asks_twice)
    return None


def _listed(function: Any, table: Any) -> Observer | None:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if module == "_warnings":
        module = "warnings"
    observer: Observer | None = table.get((module, name))
    if observer is None or not isinstance(module, str):
        return None
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return observer if getattr(found, "__func__", found) is function else None


def _cached(function: Any, owner: object) -> Observer | None:
    """A function cached by its arguments that only passes them on to observing functions."""
    if not hasattr(function, "cache_info") or not _only_passes_on(function.__wrapped__, owner):
        return None
    return Observer(LOGGER_BREAK, returns_none=False)


def _only_passes_on(function: Callable[..., Any], owner: object) -> bool:
    """True for a function whose code names nothing but loggers and their own methods."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_freevars:
        return False
    names, known = code.co_names, function.__globals__
    attributes = [name for name in names if name not in known]
    return all(_is_front_end(known[name]) for name in names if name in known) and all(
        name in _LEVELS and (owner is None or _is_logging(getattr(type(owner), name, None)))
        for name in attributes
    )


def _is_front_end(value: object) -> bool:
    return isinstance(value, logging.Logger) or value is logging or value is warnings


def _is_logging(function: object) -> bool:
    return function is not None and _listed(function, _BY_NAME) is not None
