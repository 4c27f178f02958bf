"""`7 in range(9)`: True, where torch 2.13 gives how often it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.trace.compilation import current


def found_in_range(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`RangeVariable.sq_contains`."""

    def sq_contains(self: Any, *args: Any) -> Any:
        found = stock(self, *args)
        if current() is not None and found.is_python_constant():
            return ConstantVariable.create(bool(found.as_python_constant()))
        return found

    return sq_contains
