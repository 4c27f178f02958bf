"""Autograd functions that are given one tensor twice: `Distance.apply(x, x)`.

Stock breaks the graph there, as two gradients would have to be one. Where the tensor gets none,
there is nothing to add up: the gradient of each of its places is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.trace.compilation import current


def rewire_gradients(stock: Callable[..., None]) -> Callable[..., None]:
    """`AutogradFunctionApplyVariable.rewire_bwd_graph_outputs`, for each tensor once."""

    def rewire(
        self: Any,
        fwd_freevars: Any,
        bwd_out: Any,
        bwd_graph: Any,
        bwd_freevars: Any,
        orig_fwd_args: Sequence[VariableTracker],
    ) -> None:
        args = orig_fwd_args
        if current() is not None and _repeated(args):
            args = [_nothing(args, place) for place in range(len(args))]
        stock(self, fwd_freevars, bwd_out, bwd_graph, bwd_freevars, args)

    return rewire


def _repeated(args: Sequence[VariableTracker]) -> bool:
    """Whether a tensor is there twice, and none such may get a gradient or was written."""
    values = [_value(arg) for arg in args if arg.is_tensor()]
    repeated = [value for place, value in enumerate(values) if _is_among(value, values[:place])]
    return bool(repeated) and not any(
        value.requires_grad or value.is_inference() or value._version for value in repeated
    )


def _nothing(args: Sequence[VariableTracker], place: int) -> VariableTracker:
    """An argument, or None for a tensor that is an argument before it."""
    arg = args[place]
    before = [_value(each) for each in args[:place] if each.is_tensor()]
    is_again = arg.is_tensor() and _is_among(_value(arg), before)
    return ConstantVariable.create(None) if is_again else arg


def _value(arg: VariableTracker) -> Any:
    return arg.as_proxy().node.meta["example_value"]


def _is_among(value: object, others: Sequence[object]) -> bool:
    return any(value is other for other in others)
