"""Tensors that hold one whole number which is known while tracing, as rows of indices may do.

Where eager Python asks such a tensor for its number, so that Dynamo could not go on, the number
stands for it: `t.item()`, `modules[t]`, `x[t]` if `t` has no dimension.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo.compilation import Trace, current


def number_in(trace: Trace, value: VariableTracker) -> int | bool | None:
    """The number that a tensor holds, if it is one and is known.

    Args:
        trace: the attempt that is running.
        value: any variable.
    """
    if not trace.counts or type(value) is not TensorVariable or trace.recorder is None:
        return None
    tensor = value.as_proxy().node.meta["example_value"]
    if any(not isinstance(size, int) or size != 1 for size in tensor.shape):
        return None
    number = trace.recorder.ranges.of(tensor).number
    return bool(number) if number is not None and tensor.dtype is torch.bool else number


def call_method(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable.call_method`: such a tensor tells its number, and indexes as its number."""

    def call(
        self: Any, tx: Any, name: str, args: list[VariableTracker], *rest: Any, **kwargs: Any
    ) -> Any:
        compilation = current()
        if compilation is not None and compilation.trace.counts:
            if name == "item" and (number := number_in(compilation.trace, self)) is not None:
                return ConstantVariable.create(number)
            if name in ("__getitem__", "__setitem__"):
                args = [_with_numbers(compilation.trace, args[0]), *args[1:]]
        return stock(self, tx, name, args, *rest, **kwargs)

    return call


def call_builtin(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`BuiltinVariable.call_function`: subscripts of tensors, and `operator.index`."""

    def call(self: Any, tx: Any, args: list[VariableTracker], *rest: Any, **kwargs: Any) -> Any:
        compilation = current() if self.fn in (operator.getitem, operator.index) else None
        if compilation is None or not compilation.trace.counts:
            return stock(self, tx, args, *rest, **kwargs)
        trace, target = compilation.trace, args[0].realize()
        if self.fn is operator.index and (number := number_in(trace, target)) is not None:
            return ConstantVariable.create(int(number))
        if self.fn is operator.getitem and type(target) is TensorVariable:
            args = [target, _with_numbers(trace, args[1])]
        return stock(self, tx, args, *rest, **kwargs)

    return call


def _with_numbers(trace: Trace, key: VariableTracker) -> VariableTracker:
    """A key in which the number stands for each such tensor without a dimension."""
    key = key.realize()
    if type(key) is TupleVariable:
        return TupleVariable([_with_numbers(trace, item) for item in key.items])
    number = number_in(trace, key)
    if number is None:
        return key
    tensor = key.as_proxy().node.meta["example_value"]
    is_mask = tensor.dtype in (torch.bool, torch.uint8)
    return key if tensor.dim() or is_mask else ConstantVariable.create(number)
