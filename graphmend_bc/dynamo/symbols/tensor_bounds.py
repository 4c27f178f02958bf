"""Tensors as the bounds of `torch.arange`: their numbers are read by operators of their own.

Dynamo hands the tensors over, and the operator reads them inside: the graph gets a size made of
numbers that nothing in it gives (`u1 - u0`), which torch takes for a mistake.

    torch.arange(a, b)      torch.arange(a.item(), b.item())
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.symbols.known_integers import is_index
from graphmend_bc.dynamo.trace.compilation import current

_BOUNDS: Final = ("start", "end", "step")


def call_range(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`: the bounds of `torch.arange`."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        compilation = current()
        if self.value is torch.arange and compilation is not None and compilation.captures:
            args = [_number(tx, arg) for arg in args]
            kwargs = {
                name: _number(tx, value) if name in _BOUNDS else value
                for name, value in kwargs.items()
            }
        result: VariableTracker = stock(self, tx, args, kwargs)
        return result

    return call_function


def _number(tx: Translator, value: VariableTracker) -> VariableTracker:
    """The number of a tensor that holds one whole number; anything else as it is."""
    value = value.realize()
    return value.call_method(tx, "item", [], {}) if is_index(value) else value
