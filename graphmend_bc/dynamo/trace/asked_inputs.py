"""Inputs of the graph that a trace has asked something that their autograd history may answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Final

from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class AskedInputs(Feature):
    """The inputs that were asked by now.

    Attributes:
        nodes: of the graph, or of a graph within it.
    """

    stays: ClassVar[bool] = True

    nodes: set[Node] = field(default_factory=set)

    def note(self, tensor: TensorVariable, name: str) -> None:
        """A tensor is asked for an attribute or a method.

        Args:
            tensor: it.
            name: of what it is asked for.
        """
        if name not in _OF_ANY_FLAG:
            node = tensor.as_proxy().node
            if node.op == "placeholder":
                self.nodes.add(node)


_OF_ANY_FLAG: Final = frozenset(
    {"device", "dim", "dtype", "ndim", "numel", "requires_grad_", "shape", "size"}
)
"""What a tensor gives whether or not it requires a gradient."""
