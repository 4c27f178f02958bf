"""Padding by a number that is a symbol: `F.pad(indices, [0, 1], value=x.shape[0] - 1)`.

torch takes the value of a pad for a float, so that Dynamo guards on the number, and compiles the
function anew for each. What is padded with is joined to the tensor instead, which gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.trace import tracing
from graphmend_bc.dynamo.trace.compilation import current

_DTYPES: Final = (torch.int64, torch.int32, torch.float32, torch.float64)
"""In which a whole number and the float of it are the same value."""

_EXACT: Final = 2**53
_MOST_DIMS: Final = 3
"""What has more may have another order in memory."""


def call_pad(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`: what `F.pad` calls."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        if self.value is torch._C._nn.pad and len(args) == 4 and not kwargs:
            found = _joined(tx, *(arg.realize() for arg in args))
            if found is not None:
                return found
        result: VariableTracker = stock(self, tx, args, kwargs)
        return result

    return call_function


def _joined(
    tx: InstructionTranslatorBase,
    tensor: VariableTracker,
    pad: VariableTracker,
    mode: VariableTracker,
    value: VariableTracker,
) -> VariableTracker | None:
    """The padded tensor; None if that is left to stock."""
    compilation = None if tx.output.export else current()
    if compilation is None or not compilation.may_mend or compilation.is_saved:
        return None
    if type(tensor) is not TensorVariable or not _is_symbol(value):
        return None
    if not (pad.is_python_constant() and mode.is_python_constant()):
        return None
    sizes = pad.as_python_constant()
    example = tensor.as_proxy().node.meta["example_value"]
    known = mode.as_python_constant() == "constant" and _are_sizes(sizes, example.ndim)
    if not known or example.dtype not in _DTYPES or tensor.python_type() is not torch.Tensor:
        return None
    if not -_EXACT < value.sym_num < _EXACT:  # type: ignore[attr-defined]
        return None
    return tracing.inline(tx, padded, tensor, pad, value)


def _is_symbol(value: VariableTracker) -> bool:
    """True for an integer that is known when the frame is called, and differs."""
    if not isinstance(value, SymNodeVariable) or not isinstance(value.sym_num, torch.SymInt):
        return False
    return bool(value.sym_num.node.has_hint())


def _are_sizes(sizes: Any, dims: int) -> bool:
    """True for what a pad adds to a tensor of so many dimensions, if it adds anything."""
    if type(sizes) not in (list, tuple) or any(type(size) is not int for size in sizes):
        return False
    fits = len(sizes) % 2 == 0 and len(sizes) <= 2 * dims <= 2 * _MOST_DIMS
    return fits and min(sizes, default=0) >= 0 < max(sizes, default=0)


def padded(tensor: torch.Tensor, pad: Sequence[int], value: int) -> torch.Tensor:
    """A tensor with so many times a value before and after it, from the last dimension on."""
    for place in range(len(pad) // 2):
        dim = tensor.dim() - 1 - place
        parts = [tensor]
        for number, at in ((pad[2 * place], 0), (pad[2 * place + 1], 1)):
            if number:
                shape = [*tensor.shape[:dim], number, *tensor.shape[dim + 1 :]]
                parts.insert(at * len(parts), tensor.new_full(shape, value))
        tensor = torch.cat(parts, dim) if len(parts) > 1 else tensor
    return tensor
