"""Tensors that hold one whole number which is known while tracing, as rows of indices may do.

Where eager Python asks such a tensor for its number, so that Dynamo could not go on, the number
stands for it: `t.item()`, `modules[t]`, `x[t]` if `t` has no dimension.
"""

from __future__ import annotations

from typing import Final

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.dynamo.trace.features import Feature


class KnownIntegers(Feature):
    """There are rows whose numbers are known."""

    __slots__ = ()


def number_in(trace: Trace, value: VariableTracker) -> int | bool | None:
    """The number that a tensor holds, if it is one and is known.

    Args:
        trace: the attempt that is running.
        value: any variable.
    """
    if (
        trace.known(KnownIntegers) is None
        or type(value) is not TensorVariable
        or trace.recorder is None
    ):
        return None
    tensor = value.as_proxy().node.meta["example_value"]
    if any(not isinstance(size, int) or size != 1 for size in tensor.shape):
        return None
    number = trace.recorder.ranges.number_in(tensor)
    return bool(number) if number is not None and tensor.dtype is torch.bool else number


def with_numbers(trace: Trace, key: VariableTracker) -> VariableTracker:
    """A key in which the number stands for each such index whose number is known."""
    key = key.realize()
    if type(key) is TupleVariable:
        return TupleVariable([with_numbers(trace, item) for item in key.items])
    number = number_in(trace, key)
    return key if number is None or not is_index(key) else ConstantVariable.create(number)


def is_index(item: VariableTracker) -> bool:
    """True for a tensor that selects by its number; one of uint8 or bool is a mask."""
    if type(item) is not TensorVariable:
        return False
    tensor = item.as_proxy().node.meta["example_value"]
    return not tensor.dim() and tensor.dtype in _INDICES


_INDICES: Final = (torch.int64, torch.int32, torch.int16, torch.int8)
