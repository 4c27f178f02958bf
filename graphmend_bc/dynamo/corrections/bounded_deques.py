"""Deques with a largest length that were there before the function.

Dynamo takes an existing deque to have none, so what is appended to a full one would be one item too
many for the rest of the function. Replayed after the graph, the items are those of the real deque
again, because it gets no more than it holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.trace.context import current
from graphmend_bc.dynamo.trace.program_objects import object_of


def bounded(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A method of `DequeVariable` that depends on the largest length."""

    def ask(self: Any, tx: InstructionTranslatorBase, *args: Any, **kwargs: Any) -> Any:
        if current() is None or not self.source or not self.maxlen.is_constant_none():
            return stock(self, tx, *args, **kwargs)
        item = object_of(tx.output.side_effects, self)
        if type(item) is not deque:
            return stock(self, tx, *args, **kwargs)
        install_guard(AttrSource(self.source, "maxlen").make_guard(GuardBuilder.CONSTANT_MATCH))
        unbounded, self.maxlen = self.maxlen, ConstantVariable.create(item.maxlen)
        try:
            return stock(self, tx, *args, **kwargs)
        finally:
            self.maxlen = unbounded  # Dynamo replays nothing to one that it knows to be bounded
            if item.maxlen is not None:
                del self.items[item.maxlen :]

    return ask


def read_bound(stock: Any) -> Any:
    """The entry of `maxlen` in the table of a deque's attributes."""
    return replace(stock, getter=bounded(stock.getter))
