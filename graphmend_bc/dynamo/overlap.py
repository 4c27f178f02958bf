"""Inputs that share no memory while a graph is traced must share none when it runs.

Dynamo guards on which inputs are the same object, not on which are views of the same memory. A
proof that a write to one input does not reach another holds only while the two are apart, which is
looked up before the graph runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

from graphmend_bc.dynamo.nodes import is_input
from graphmend_bc.legality.alias import storage_of
from graphmend_bc.reasons import Refused

_MOST_PAIRS = 256
"""Pairs of inputs are looked up at every call; past this many a site is not worth it."""


@dataclass(frozen=True, slots=True)
class Apart:
    """Pairs of a graph's inputs, by position, that must not share memory."""

    pairs: tuple[tuple[int, int], ...]

    def holds(self, args: Sequence[Any]) -> bool:
        """True if no pair shares memory.

        Args:
            args: the graph's arguments.
        """
        spans = {i: _span(args[i]) for i in {i for pair in self.pairs for i in pair}}
        return not any(
            spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1] for a, b in self.pairs
        )


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    start = storage.data_ptr()
    return start, start + storage.nbytes()


def pairs_apart(
    gm: GraphModule, output: OutputGraph, read: Collection[int], written: Collection[int]
) -> set[tuple[int, int]]:
    """The pairs of inputs of which one must not change when the other is written.

    Args:
        gm: the complete graph.
        output: what it belongs to.
        read: storages that must still be what they were.
        written: storages that the graph changes in place. One that is in `read` too is left to
            the caller.

    Raises:
        Refused: there is no place to look them up.
    """
    readers, writers = _inputs(gm, read), _inputs(gm, written)
    pairs = {(a, b) for a, s in readers.items() for b, t in writers.items() if s != t}
    if pairs and (output.export or output.random_calls or len(pairs) > _MOST_PAIRS):
        raise Refused("alias-mutated", "Two inputs might share memory.")
    return pairs


def _inputs(gm: GraphModule, storages: Collection[int]) -> dict[int, int]:
    """The inputs in some storages by position, each with its storage.

    Raises:
        Refused: one of them is no plain tensor argument.
    """
    found: dict[int, int] = {}
    position = 0
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        here, position = position, position + (node.op == "placeholder")
        if not is_input(node) or not isinstance(value, torch.Tensor):
            continue
        if (storage := storage_of(value)) not in storages:
            continue
        if node.op == "get_attr" or not isinstance(value, (FakeTensor, torch.nn.Parameter)):
            raise Refused("alias-mutated", "An input that might share memory is no argument.")
        found[here] = storage
    return found
