"""Tensors with a gradient as arguments of deferred calls: their text names an autograd node.

Compiled code has other nodes than eager Python. The call gets a stand-in: the same values, and a
node of the name that eager Python's has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.variables.base import VariableTracker
from torch._guards import Source

from graphmend_bc.dynamo.graph.lambda_guards import guard_by, reader
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.trace.compilation import is_saving
from graphmend_bc.reporting.reasons import Refused

_OPERATORS = """
    Abs Add Addmm Bmm Clamp ClampMin Clone Cos Div Exp Expand Log LogSoftmax Max Mean Min Mm MseLoss
    Mul Neg NllLoss Permute Pow Relu Reshape Rsub Select Sigmoid Silu Sin Slice Softmax Softplus
    Sqrt Squeeze Std Sub Sum Tanh Transpose T Unsqueeze UnsafeView Var View
"""
_KNOWN = frozenset(f"{name}Backward{variant}" for name in _OPERATORS.split() for variant in (0, 1))
"""Nodes of operators whose derivative is the same one everywhere: a trace sees the name that eager
Python shows."""


class AutogradReprVariable(VariableTracker):
    """A detached tensor that shows a node.

    Args:
        tensor: its values.
        node: name of the node; empty for a leaf.
    """

    _nonvar_fields: ClassVar[set[str]] = {"node", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(self, tensor: VariableTracker, node: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tensor = tensor
        self.node = node

    def python_type(self) -> type:
        return torch.Tensor

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen.add_push_null(lambda: codegen(EpilogueCallVariable("__gm_show", stand_in)))
        codegen(self.tensor)
        codegen.append_output(codegen.create_load_const(self.node))
        codegen.extend_output(create_call_function(2, False))


def node_of(example: torch.Tensor) -> str:
    """Name of the node that eager Python shows for a tensor.

    Args:
        example: the fake tensor that stands for it in the trace.

    Raises:
        Refused: the name could differ.
    """
    if example.grad_fn is None:
        return ""
    name = example.grad_fn.name()
    if name not in _KNOWN:
        raise Refused("effect-shows-grad", f"The node is {name}.")
    return name


def guard_on_leaf(place: Source) -> None:
    """Compile anew if a tensor that is a leaf is none in another call.

    Args:
        place: where the frame finds the tensor.

    Raises:
        Refused: what is compiled is to be saved, and the guard cannot be.
    """
    if is_saving():
        raise Refused("under-export", "Whether a tensor is a leaf is not asked where it is loaded.")
    read = reader([place])
    guard_by(lambda local, scope: bool(read(local, scope)[0].is_leaf), f"{place.name} is a leaf")


def stand_in(tensor: torch.Tensor, node: str) -> torch.Tensor:
    """A tensor of the same values that shows a node.

    Args:
        tensor: without a gradient; its memory is shared.
        node: name of the node; empty for a leaf.
    """
    with torch.enable_grad():
        leaf = tensor.detach().requires_grad_()
        return _shower(node).apply(leaf) if node else leaf


@lru_cache(maxsize=256)
def _shower(node: str) -> Any:
    def forward(ctx: Any, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view_as(tensor)

    function: Any = type(node, (torch.autograd.Function,), {"forward": staticmethod(forward)})
    function._backward_cls.__name__ = node
    return function
