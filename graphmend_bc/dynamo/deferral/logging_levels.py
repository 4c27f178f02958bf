"""Logging levels: read while tracing, with a guard that compiles anew when the answer changes.

A message below the level costs nothing then: no output of the graph and no call after it.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Final

from torch._dynamo.guards import install_guard
from torch._dynamo.source import get_global_source_name
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._guards import Guard, Source

from graphmend_bc.catalog.observers import LOGGER_BREAK, Observer
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import ask_in_each_call
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, owner_of
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_QUESTIONS = frozenset(
    vars(owner)[name]
    for owner in (logging.Logger, logging.LoggerAdapter)
    for name in ("isEnabledFor", "getEffectiveLevel", "hasHandlers")
)


def is_by_name(value: object) -> bool:
    """True for a logger that `logging.getLogger` gives, in another process too."""
    known = logging.Logger.manager.loggerDict
    return isinstance(value, logging.Logger) and (
        value is logging.root or known.get(value.name) is value
    )


def is_question(function: object) -> bool:
    """True for a logger's own methods that ask for its level or handlers."""
    return getattr(function, "__func__", None) in _QUESTIONS


def is_off(
    trace: Trace,
    function: Any,
    observer: Observer,
    callee: VariableTracker,
    args: list[VariableTracker],
) -> bool:
    """Whether a call will log nothing, because of the logger's level; guarded on.

    Args:
        trace: the attempt that is running.
        function: the method that is called.
        observer: what is known of it.
        callee: the variable of the method.
        args: its arguments; `log` has its level there.

    Returns:
        False if the level cannot be known.
    """
    logger, level = getattr(function, "__self__", None), observer.level
    owner = owner_of(callee)
    if owner is None or owner.source is None or not _has_plain_level(logger):
        return False
    if level is None and function.__name__ == "log" and args and args[0].is_python_constant():
        level = args[0].as_python_constant()
    if type(level) is not int:
        return False
    enabled = bool(logger.isEnabledFor(level))  # type: ignore[union-attr]
    _expect(trace, owner, "isEnabledFor", (level,), enabled)
    return not enabled


def _has_plain_level(logger: object) -> bool:
    return getattr(getattr(logger, "isEnabledFor", None), "__func__", None) in _QUESTIONS


class QuestionVariable(MarkedCalleeVariable):
    """A method of a logger that is asked while tracing."""

    _nonvar_fields: ClassVar[set[str]] = {"function", *MarkedCalleeVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        callee: VariableTracker,
        function: Any,
        compilation: Compilation,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, callee, compilation, **kwargs)
        self.function = function

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """The answer, as a constant."""
        owner = owner_of(self.callee)
        known = all(arg.is_python_constant() for arg in args) and not kwargs
        if owner is None or owner.source is None or not known:
            return None
        values = tuple(arg.as_python_constant() for arg in args)
        answer = self.function(*values)
        if self.compilation.is_saved and get_global_source_name(owner.source):
            if not is_by_name(self.function.__self__):
                raise Refused("under-export", "It is no logger that `getLogger` gives.")
            ask_in_each_call(self.compilation.trace, partial(self.function, *values), answer)
        else:
            _expect(self.compilation.trace, owner, self.function.__name__, values, answer)
        self.compilation.trace.used[self.site] = "defer"
        self.compilation.trace.gb_types[self.site] = LOGGER_BREAK
        result: VariableTracker = ConstantVariable.create(answer)
        return result


_NEVER: Final = MappingProxyType({"": True})
"""What no logger has in its cache."""


class _Answers:
    """What one object is expected to answer: one guard for all that is asked of it."""

    def __init__(self) -> None:
        self.levels: dict[int, bool] = {}
        self.others: dict[tuple[str, tuple[Any, ...]], object] = {}
        self.create = self._create
        self._cache: Mapping[Any, Any] = _NEVER
        self._builder: Callable[[], object] = lambda: None

    def note(self, method: str, args: tuple[Any, ...], answer: object) -> None:
        """Expect an answer."""
        if method == "isEnabledFor" and len(args) == 1 and type(args[0]) is int:
            self.levels[args[0]] = bool(answer)
        else:
            self.others[method, args] = answer

    def hold(self, value: Any) -> bool:
        """Whether an object gives these answers.

        A logger answers `isEnabledFor` from its cache, so what held for the same cache holds.
        """
        if getattr(value, "_cache", None) == self._cache and not getattr(value, "disabled", True):
            return True
        if not all(value.isEnabledFor(level) is on for level, on in self.levels.items()):
            return False
        cache = dict(getattr(value, "_cache", _NEVER))
        # Another thread may have changed a level since it was asked for.
        if not self.others and all(cache.get(level) is on for level, on in self.levels.items()):
            self._cache = cache
        return all(
            getattr(value, method)(*args) == answer
            for (method, args), answer in self.others.items()
        )

    def _create(self, builder: Any, guard: Guard) -> None:
        """Make the guard; called when the trace is done, once for each line that asked."""
        if self._builder() is builder:
            return
        self._builder = weakref.ref(builder)
        asked: dict[str, object] = {
            f"isEnabledFor({level})": answer for level, answer in self.levels.items()
        }
        asked |= {f"{name}{args!r}": answer for (name, args), answer in self.others.items()}
        code = [f"{guard.name}.{call} == {answer!r}" for call, answer in asked.items()]
        builder.get_guard_manager(guard).add_lambda_guard(self.hold, code, guard.user_stack)


@dataclass(slots=True, eq=False)
class Levels(Feature):
    """What is guarded on that loggers answered, by where each is found."""

    answers: dict[Source, _Answers] = field(default_factory=dict)


def _expect(
    trace: Trace, owner: VariableTracker, method: str, args: tuple[Any, ...], answer: object
) -> None:
    """Guard on an answer. The guard is installed each time, for an arm's guards may be dropped."""
    source = owner.source
    assert source is not None
    answers = trace.of(Levels).answers.setdefault(source, _Answers())
    answers.note(method, args, answer)
    install_guard(source.make_guard(answers.create))
