"""Read the values that the host needs from a graph's outputs: all of them in one transfer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final

import torch

from graphmend_bc.runtime.told_once import told_once

_is_on_cpu: Final = attrgetter("is_cpu")


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
        local = [outputs[index] for index in methods]
        try:
            local = on_host(local)
        except Exception as error:  # of memory for all of them, for one
            told_once("reads the outputs of a graph one by one", error)
        for (index, method), tensor in zip(methods.items(), local, strict=True):
            outputs[index] = getattr(tensor, method)()
        return tuple(outputs)

    return run_graph


def on_host(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors on the CPU, with one transfer for each device that several of them are on.

    A tensor that is alone on its device is left there: whoever reads it transfers it.

    Args:
        tensors: strided, without a gradient.
    """
    if all(map(_is_on_cpu, tensors)):
        return tensors
    found = list(tensors)
    on_devices: dict[torch.device, list[int]] = {}
    for i, tensor in enumerate(tensors):
        if not tensor.is_cpu:
            on_devices.setdefault(tensor.device, []).append(i)
    for positions in on_devices.values():
        if len(positions) == 1:
            continue
        # Widest first, so that every tensor is aligned in the common buffer.
        order = sorted(positions, key=lambda i: -tensors[i].element_size())
        pieces = [tensors[i].reshape(-1).view(torch.uint8) for i in order]
        buffers = torch.split(torch.cat(pieces).cpu(), [piece.numel() for piece in pieces])
        for i, buffer in zip(order, buffers, strict=True):
            found[i] = buffer.view(tensors[i].dtype).reshape(tensors[i].shape)
    return found
