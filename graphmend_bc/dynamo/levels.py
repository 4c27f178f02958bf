"""Logging levels: read while tracing, with a guard that compiles anew when the answer changes.

A message below the level costs nothing then: no output of the graph and no call after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

from torch._dynamo.guards import install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._guards import Guard, GuardBuilderBase

from graphmend_bc.dynamo.callees import MarkedCalleeVariable, owner_of
from graphmend_bc.dynamo.compilation import Compilation
from graphmend_bc.observers import LOGGER_BREAK, Observer
from graphmend_bc.runtime import Site

_QUESTIONS = frozenset(
    vars(owner)[name]
    for owner in (logging.Logger, logging.LoggerAdapter)
    for name in ("isEnabledFor", "getEffectiveLevel", "hasHandlers")
)


def is_question(function: object) -> bool:
    """True for a logger's own methods that ask for its level or handlers."""
    return getattr(function, "__func__", None) in _QUESTIONS


def is_off(
    function: Any, observer: Observer, callee: VariableTracker, args: list[VariableTracker]
) -> bool:
    """Whether a call will log nothing, because of the logger's level; guarded on.

    Args:
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
    install_guard(owner.source.make_guard(_guard("isEnabledFor", (level,), enabled)))
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

    def call_function(
        self,
        tx: InstructionTranslatorBase,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        """The answer, as a constant."""
        owner = owner_of(self.callee)
        known = all(arg.is_python_constant() for arg in args) and not kwargs
        if owner is None or owner.source is None or not known:
            return self.callee.call_function(tx, args, kwargs)
        values = tuple(arg.as_python_constant() for arg in args)
        answer = self.function(*values)
        install_guard(owner.source.make_guard(_guard(self.function.__name__, values, answer)))
        self.compilation.trace.used[self.site] = "defer"
        self.compilation.trace.gb_types[self.site] = LOGGER_BREAK
        result: VariableTracker = ConstantVariable.create(answer)
        return result


@lru_cache(maxsize=1024)
def _guard(
    method: str, args: tuple[Any, ...], answer: object
) -> Callable[[GuardBuilderBase, Guard], None]:
    """A guard on an object: its method still gives the same answer.

    The same guard on the same object is one guard, however many calls ask for it.
    """

    def holds(value: Any) -> bool:
        return bool(getattr(value, method)(*args) == answer)

    def create(builder: Any, guard: Guard) -> None:
        code = [f"{guard.name}.{method}{args!r} == {answer!r}"]
        builder.get_guard_manager(guard).add_lambda_guard(holds, code, guard.user_stack)

    return create
