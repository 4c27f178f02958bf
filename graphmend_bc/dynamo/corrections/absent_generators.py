"""`torch.randn(x.shape, generator=None)`, where a size is dynamic.

Their overloads that take a generator take no symbolic sizes, and stock does not get past the call.
Without one, the others draw the same from the same generator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator, holds_any
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.features import Feature

_FUNCTIONS: Final = (torch.rand, torch.randn, torch.randint)


@dataclass(slots=True, eq=False)
class AbsentGenerators(Feature):
    """That an attempt has left one out: it is there once one has."""

    stays: ClassVar[bool] = True

    def corrects(self) -> bool:
        return True


def leave_out(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`, without a generator that is None."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> Any:
        compilation, given = current(), kwargs.get("generator")
        if given is not None and compilation is not None and compilation.may_mend:
            is_none = given.realize().is_python_constant() and given.as_python_constant() is None
            if is_none and self.value in _FUNCTIONS and holds_any((args, kwargs), _is_symbol):
                compilation.trace.of(AbsentGenerators)
                kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        return stock(self, tx, args, kwargs)

    return call_function


def _is_symbol(value: VariableTracker) -> bool:
    return isinstance(value, SymNodeVariable)
