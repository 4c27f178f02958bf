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
        args = list(orig_fwd_args)
        again = _repeated(args) if current() is not None else []
        if not any(map(_matters, (args[place] for place in again))):
            for place in again:
                args[place] = ConstantVariable.create(None)
        stock(self, fwd_freevars, bwd_out, bwd_graph, bwd_freevars, args)

    return rewire


def _repeated(args: Sequence[VariableTracker]) -> list[int]:
    """The places of tensors that are an argument before as well."""
    found, seen = [], set[int]()
    for place, arg in enumerate(args):
        if arg.is_tensor():
            if id(_value(arg)) in seen:
                found.append(place)
            seen.add(id(_value(arg)))
    return found


def _matters(arg: VariableTracker) -> bool:
    """Whether a tensor may get a gradient, or was written."""
    value = _value(arg)
    return bool(value.requires_grad or value.is_inference() or value._version)


def _value(arg: VariableTracker) -> Any:
    return arg.as_proxy().node.meta["example_value"]
