"""Look ahead, before the first deferred call runs: would one of them raise?

An exception must find the world as eager Python has it at the call. Deferred calls run when the
whole graph has, so the graph's results are thrown away and the frame's original code runs instead.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from graphmend_bc.runtime.deferral.call_places import CallPlace
from graphmend_bc.runtime.deferral.effects import Effect
from graphmend_bc.runtime.deoptimise import Deoptimise
from graphmend_bc.runtime.objects import can_be_shown
from graphmend_bc.runtime.told_once import told_once

Predicates = tuple[tuple[Any, bool], ...]
Call = tuple[Predicates, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


@dataclass(slots=True, eq=False)
class EffectPreflight:
    """The look ahead of one frame.

    Attributes:
        can_deoptimise: whether the graph can be rolled back.
        effects: the calls to look at, in order.
        undone: what takes the graph back that has just run in a thread.
    """

    can_deoptimise: bool = False
    effects: list[Effect] = field(default_factory=list)
    undone: threading.local = field(default_factory=threading.local)

    def __reduce__(self) -> tuple[Any, ...]:
        """What is saved with code that is compiled ahead of time."""
        return EffectPreflight, (self.can_deoptimise, self.effects)

    def check(self, *calls: Call) -> None:
        """Raise `Deoptimise` if one of the calls is about to raise and may still be prevented.

        Args:
            calls: predicates, function, arguments and keywords of each effect.
        """
        if not self.can_deoptimise:
            return
        restore = self.undone.__dict__.pop("restore", None)
        try:
            is_fine = not any(map(_is_about_to_raise, self.effects, calls))
        except Exception as error:
            told_once("runs a frame's own code", error)
            is_fine = False
        if not is_fine:
            if restore is not None:
                restore()
            raise Deoptimise

    def check_objects(self, *groups: tuple[Predicates, tuple[object, ...]]) -> None:
        """Raise `Deoptimise` if an object among the arguments does more than read when it is shown.

        Args:
            groups: predicates and objects of each effect that shows objects.
        """
        try:
            is_fine = all(
                not runs(predicates) or all(map(can_be_shown, objects))
                for predicates, objects in groups
            )
        except Exception as error:
            told_once("runs a frame's own code", error)
            is_fine = False
        if not is_fine:
            if (restore := self.undone.__dict__.pop("restore", None)) is not None:
                restore()
            raise Deoptimise
        if not self.effects:
            self.undone.__dict__.clear()  # nobody else asks for it


def _is_about_to_raise(effect: Effect, call: Call) -> bool:
    predicates, function, args, kwargs = call
    place, handled = effect.frames()[-1], effect.handled
    return would_raise(function, args, kwargs, place, handled) and runs(predicates)


def runs(predicates: Predicates) -> bool:
    """Whether all branches around an effect were taken."""
    return all(bool(value) is taken for value, taken in predicates)


def would_raise(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    place: CallPlace,
    handled: bool = False,
) -> bool:
    """Whether a call of a function that writes, logs or warns may raise in the present state.

    Args:
        function: `print`, a method of a stream, or a function of `warnings`.
        args, kwargs: its arguments; None for a text that is not known yet.
        place: the frame that a warning is attributed to.
        handled: whether streams and log handlers that are not known are taken to raise.
    """
    name = getattr(function, "__name__", "")
    if getattr(function, "__module__", "") in ("warnings", "_warnings"):
        if name == "warn_explicit":
            place = _explicit(args, kwargs, place)
        module = str(place.module_globals.get("__name__", "<string>"))
        return _may_be_error(_message(args, kwargs), _category(args, kwargs), module, place.lineno)
    if (logger := _logger_of(function)) is not None:
        return handled and not all(map(_is_known, _reached_by(logger)))
    stream = getattr(function, "__self__", None)
    if not hasattr(stream, "write"):
        stream = kwargs.get("file") or sys.stdout
    return bool(getattr(stream, "closed", False)) or (handled and not _takes_all(stream))


_HANDLERS = ("logging", "_pytest.", "torch._logging", "rich.")
_STREAMS = ("_pytest.", "ipykernel.")


def _takes_all(stream: Any) -> bool:
    """True for a stream that takes every text, as long as what is behind it does."""
    if type(stream) is io.StringIO or type(stream).__module__.startswith(_STREAMS):
        return True
    plain = type(stream) is io.TextIOWrapper
    return plain and (stream.errors != "strict" or stream.encoding.lower() in ("utf-8", "utf8"))


def _logger_of(function: Any) -> logging.Logger | None:
    """The logger that a function of `logging` logs to."""
    if getattr(function, "__module__", "") != "logging":
        return None
    owner = getattr(function, "__self__", None)
    if isinstance(owner, logging.LoggerAdapter):
        owner = owner.logger
    return owner if isinstance(owner, logging.Logger) else logging.root


def _reached_by(logger: logging.Logger) -> list[logging.Filterer]:
    """The logger, and the handlers that get its records."""
    found: list[logging.Filterer] = [logger]
    above: logging.Logger | None = logger
    while above is not None:
        found += above.handlers
        above = above.parent if above.propagate else None
    return found


def _is_known(item: logging.Filterer) -> bool:
    """True for a logger or handler that does not raise: those of `logging` tell of errors."""
    known = isinstance(item, logging.Logger) or type(item).__module__.startswith(_HANDLERS)
    return known and all(type(each) is logging.Filter for each in item.filters)


def _explicit(args: tuple[Any, ...], kwargs: dict[str, Any], place: CallPlace) -> CallPlace:
    names = ("message", "category", "filename", "lineno", "module")
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    filename = str(given.get("filename"))
    module = given.get("module") or filename.removesuffix(".py")
    lineno = given.get("lineno")
    lineno = lineno if isinstance(lineno, int) else 0
    return CallPlace(filename, place.name, place.qualname, lineno, {"__name__": module})


def _message(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args[0] if args else kwargs.get("message")


def _category(args: tuple[Any, ...], kwargs: dict[str, Any]) -> type[Warning]:
    if isinstance(message := _message(args, kwargs), Warning):
        return type(message)
    found = args[1] if len(args) > 1 else kwargs.get("category")
    return found if isinstance(found, type) else UserWarning


def _may_be_error(message: Any, category: type[Warning], module: str, lineno: int) -> bool:
    """True if the first filter that fits, or one that may fit, turns the warning into an error."""
    text = None if message is None else str(message)
    for action, wanted_text, wanted_category, wanted_module, wanted_line in warnings.filters:
        if (
            not issubclass(category, wanted_category)
            or wanted_line not in (0, lineno)
            or not _fits(wanted_module, module)
            or (text is not None and not _fits(wanted_text, text))
        ):
            continue
        if action == "error":
            return True
        if wanted_text is None or text is not None:
            return False
    return getattr(warnings, "defaultaction", "default") == "error"


def _fits(pattern: Any, text: str) -> bool:
    if pattern is None or isinstance(pattern, str):
        return pattern in (None, text)
    return pattern.match(text) is not None
