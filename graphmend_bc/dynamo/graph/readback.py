"""Read the values that the host needs from a graph's outputs: all of them in one transfer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.variables.base import VariableTracker
from torch.fx import Node


@dataclass(slots=True)
class Reads:
    """Which outputs of a graph are to be read.

    Attributes:
        methods: by the position of the output, "item" or "tolist".
        predicates: the values read from predicates, by their nodes.
    """

    methods: dict[int, str] = field(default_factory=dict)
    predicates: dict[Node, VariableTracker] = field(default_factory=dict)
    _codegen: object = None

    def note(self, codegen: object, index: int, method: str) -> None:
        """Output `index` is to be read; only what the last code generator says counts."""
        if codegen is not self._codegen:
            self._codegen = codegen
            self.methods = {}
        self.methods[index] = method


def reading(graph: Callable[..., Any], methods: Mapping[int, str]) -> Callable[..., Any]:
    """The same graph, with Python values in place of some outputs.

    Args:
        graph: gives a tuple of tensors.
        methods: by position, the tensor method that reads an output; without any the graph itself
            is returned.
    """
    if not methods:
        return graph
    methods = dict(methods)

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        outputs = list(graph(*args, **kwargs))
        local = on_host([outputs[index] for index in methods])
        for (index, method), tensor in zip(methods.items(), local, strict=True):
            outputs[index] = getattr(tensor, method)()
        return tuple(outputs)

    return run_graph


def on_host(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors on the CPU, with one transfer for each device that they are on.

    Args:
        tensors: strided, without a gradient.
    """
    found = list(tensors)
    for device in {tensor.device for tensor in tensors if tensor.device.type != "cpu"}:
        # Widest first, so that every tensor is aligned in the common buffer.
        order = sorted(
            (i for i, tensor in enumerate(tensors) if tensor.device == device),
            key=lambda i: -tensors[i].element_size(),
        )
        pieces = [tensors[i].reshape(-1).view(torch.uint8) for i in order]
        buffers = torch.split(torch.cat(pieces).cpu(), [piece.numel() for piece in pieces])
        for i, buffer in zip(order, buffers, strict=True):
            found[i] = buffer.view(tensors[i].dtype).reshape(tensors[i].shape)
    return found
