"""Deques with a largest length.

Dynamo takes a deque that was there before the function to have none, so what is appended to a full
one would be one item too many for the rest of the function. Replayed after the graph, the items are
those of the real deque again, because it gets no more than it holds. Nor have all deques that are
made of others their length.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import DequeVariable

from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.program_objects import object_of


def bounded(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `DequeVariable` that depends on the largest length."""

    def ask(self: Any, tx: InstructionTranslatorBase, *args: Any, **kwargs: Any) -> Any:
        if current() is None:
            return stock(self, tx, *args, **kwargs)
        noted, self.maxlen = self.maxlen, _bound(self, tx)
        try:
            return stock(self, tx, *args, **kwargs)
        finally:
            _limit(self, self.maxlen)
            self.maxlen = noted  # Dynamo replays nothing to one that it knows to be bounded

    return ask


def read_bound(stock: Any) -> Any:
    """The entry of `maxlen` in the table of a deque's attributes."""
    return replace(stock, getter=bounded(stock.getter))


def repeated(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`q * n`, which not all releases limit."""

    def sq_repeat_impl(self: Any, tx: InstructionTranslatorBase, *args: Any, **kwargs: Any) -> Any:
        made = stock(self, tx, *args, **kwargs)
        if current() is not None and isinstance(made, DequeVariable):
            _limit(made, _bound(self, tx))
        return made

    return sq_repeat_impl


def added(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`q + r`, where Dynamo does not ask the deque but makes one itself."""

    def call_function(
        self: Any, tx: InstructionTranslatorBase, args: list[VariableTracker], kwargs: Any
    ) -> Any:
        made = stock(self, tx, args, kwargs)
        is_new = getattr(self, "fn", None) is operator.add and isinstance(made, DequeVariable)
        if is_new and current() is not None:
            _limit(made, _bound(args[0].realize(), tx))
        return made

    return call_function


def _bound(found: Any, tx: InstructionTranslatorBase) -> VariableTracker:
    """The largest length of a deque, with a guard where Dynamo does not know it."""
    noted: VariableTracker = found.maxlen
    if not found.source or not noted.is_constant_none():
        return noted
    item = object_of(tx.output.side_effects, found)
    if type(item) is not deque:
        return noted
    install_guard(AttrSource(found.source, "maxlen").make_guard(GuardBuilder.CONSTANT_MATCH))
    return ConstantVariable.create(item.maxlen)


def _limit(changed: Any, bound: VariableTracker) -> None:
    changed.maxlen, most = bound, bound.as_python_constant()
    if most is not None:
        del changed.items[: max(0, len(changed.items) - most)]
