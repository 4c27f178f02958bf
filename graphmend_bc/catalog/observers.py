"""Functions that only observe: calls of them may run later, as long as their arguments are kept.

The list is closed and goes by identity: a function of the same name that is not the one listed, or
an override in a subclass, is not known. Modules are looked up only where they are loaded already.
Users add their own functions to `graphmend_bc.config.effects`; what a library has is registered.
"""

from __future__ import annotations

import builtins
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from graphmend_bc.registration import Registration, Registry


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
        counts: an attribute that it changes of the object whose method it is, if it does.
        of_class: whether it is a method that a class is called with.
    """

    gb_type: str
    returns_none: bool = True
    level: int | None = None
    stream: str = ""
    stack: str = ""
    raises: bool = False
    gradients: str = "show"
    objects: str = ""
    counts: str = ""
    of_class: bool = False


PRINT_BREAK = "Failed to trace builtin operator"
LOGGER_BREAK = "logging.Logger method not supported for non-export cases"
CALLED = "Attempted to call function marked as skipped"
INLINED = "Attempted to inline function marked as skipped"
ROOT_BREAK = "Unsupported python_type() call"
STREAM_BREAK = "Unsupported method call"
"""What stock Dynamo calls the breaks at such calls."""

OBSERVER_BREAKS: Final = frozenset(
    {PRINT_BREAK, LOGGER_BREAK, CALLED, INLINED, ROOT_BREAK, STREAM_BREAK}
)
"""All of them."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "exception": logging.ERROR,
    "critical": logging.CRITICAL,
}
_LOGGERS = (logging.Logger, logging.LoggerAdapter)
_STREAMS = (io.TextIOWrapper, io.StringIO)


Observers = Mapping[tuple[str, str], Observer]
"""Functions that only observe, by module and qualified name."""


def each(module: str, prefix: str, names: Iterable[str], observer: Observer) -> Observers:
    """The same is known of several functions of one module.

    Args:
        module: its name.
        prefix: of their qualified names, such as "Class.".
        names: the rest of these.
        observer: what is known of them.
    """
    return {(module, prefix + name): observer for name in names}


def _logging(prefix: str, gb_type: str) -> Observers:
    leveled = {
        ("logging", prefix + name): Observer(
            gb_type, level=level, stack="stacklevel", objects="text"
        )
        for name, level in _LEVELS.items()
    }
    log = Observer(gb_type, stack="stacklevel", objects="text")
    return {**leveled, ("logging", prefix + "log"): log}


_WARN = Observer(CALLED, stack="stacklevel", raises=True, objects="text")
_PRETTY = Observer(STREAM_BREAK, stream="stream", objects="text")
_OURS: Final[Observers] = MappingProxyType(
    {
        **_logging("Logger.", LOGGER_BREAK),
        **_logging("LoggerAdapter.", LOGGER_BREAK),
        **_logging("", ROOT_BREAK),
        ("warnings", "warn"): _WARN,
        ("warnings", "warn_explicit"): Observer(CALLED, raises=True),
        ("pprint", "pprint"): _PRETTY,
        ("pprint", "pp"): _PRETTY,
    }
)
_WRITE = Observer(STREAM_BREAK, returns_none=False, raises=True)

_CALLED_AS: Final = frozenset(
    {name.rsplit(".", 1)[-1] for _, name in _OURS}
    | {"print", "write", "writelines", "flush", "warn_once", "warning_advice"}
    | {"isEnabledFor", "getEffectiveLevel", "hasHandlers"}
    | {"step"}  # of a scheduler
    | {"item", "tolist", "float", "int", "str", "repr"}
    | {f"{level}_once" for level in ("debug", "info", "warning", "error")}
)
_registered = Registry[tuple[Observers, frozenset[str]]]()


def register_observers(observers: Observers, names: Iterable[str] = ()) -> Registration:
    """Defer calls of some functions as `print` is.

    Args:
        observers: what is known of them.
        names: other names under which what is deferred is usually called.

    Returns:
        A handle; `handle.remove()` makes the functions unknown again.
    """
    called_as = {name.rsplit(".", 1)[-1] for _, name in observers}
    return _registered.add((observers, frozenset(called_as | set(names))))


def observer_names() -> frozenset[str]:
    """Names under which observing functions are usually called."""
    return _CALLED_AS.union(*(names for _, names in _registered))


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
    if is_among(function, registered):
        return Observer("", returns_none=False, gradients="refuse", objects="read")
    owner, method = getattr(function, "__self__", None), getattr(function, "__func__", function)
    if isinstance(owner, _STREAMS):
        name = getattr(function, "__name__", "")
        plain = getattr(io.TextIOBase, name, None) is not None and type(owner) in _STREAMS
        return _WRITE if plain and name in ("write", "writelines", "flush") else None
    is_class = isinstance(owner, type)
    for observers in (_OURS, *(observers for observers, _ in _registered)):
        found = _listed(method, observers)
        if found is not None and found.of_class == is_class:
            return found
    return _cached(method, owner) if owner is None or isinstance(owner, _LOGGERS) else None


def is_among(function: object, named: Iterable[object]) -> bool:
    """Whether a user has named a function, or a method by itself or as its class has it.

    Args:
        function: any callable, bound methods included.
        named: what the user gave.

    Example:
        >>> is_among(logging.getLogger("a").info, {logging.Logger.info})
        True
    """
    method = getattr(function, "__func__", function)
    return any(known is function or known is method or known == function for known in named)


def _listed(function: Any, table: Observers) -> Observer | None:
    module: Any = getattr(function, "__module__", None)
    name: Any = getattr(function, "__qualname__", "")
    if module == "_warnings":
        module = "warnings"
    observer = table.get((module, name))
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
    return function is not None and _listed(function, _OURS) is not None
