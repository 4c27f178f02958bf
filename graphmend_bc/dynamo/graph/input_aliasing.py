"""Inputs must share memory when a graph runs as they did when it was traced.

Dynamo guards on which inputs are the same object, not on which are views of the same memory. A
proof that a write to one input does not reach another holds only while the two are apart, and
AOTAutograd compiles writes for the views of the first call. Both are looked up before the graph
runs.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule

from graphmend_bc.dynamo.graph.fx_nodes import is_input
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused


@dataclass(frozen=True, slots=True)
class Memory:
    """Inputs that are views of the same memory.

    Attributes:
        views: positions of the inputs, each with its storage offset; None if any will do.
        written: whether the graph changes it in place.
    """

    views: tuple[tuple[int, int | None], ...]
    written: bool

    def holds(self, args: Sequence[Any]) -> bool:
        """True if the inputs are still these views of the same memory."""
        tensors = [(args[position], offset) for position, offset in self.views]
        return len({t.untyped_storage().data_ptr() for t, _ in tensors}) == 1 and all(
            offset is None or offset == t.storage_offset() for t, offset in tensors
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """How a graph's inputs share memory.

    Attributes:
        memories: what they are views of, each once.
    """

    memories: tuple[Memory, ...]

    def holds(self, args: Sequence[Any]) -> bool:
        """True if memory that the graph changes is seen by the same inputs, in the same places.

        Args:
            args: the graph's arguments.
        """
        spans = [(*span_of(args[m.views[0][0]]), m.written) for m in self.memories]
        shared = (m for m in self.memories if m.written and len(m.views) > 1)
        return _are_apart(spans) and all(m.holds(args) for m in shared)


def span_of(tensor: torch.Tensor) -> tuple[int, int]:
    """Where the memory of a tensor begins and ends."""
    storage = tensor.untyped_storage()
    start = storage.data_ptr()  # 0 if there is no memory, as on the device "meta"
    return start, start + (storage.nbytes() if start else 0)


def _are_apart(spans: list[tuple[int, int, bool]]) -> bool:
    """True if no memory that is written overlaps another."""
    any_end = written_end = 0
    for start, end, written in sorted(spans):
        if start < (any_end if written else written_end):
            return False
        any_end = max(any_end, end)
        written_end = max(written_end, end if written else 0)
    return True


def layout_of(gm: GraphModule, output: OutputGraph, written: Collection[int]) -> Layout | None:
    """How the inputs of a graph share memory; None if it does not matter, or cannot be looked up.

    Args:
        gm: the complete graph.
        output: what it belongs to.
        written: storages that it changes in place.
    """
    found = dict[int, list[tuple[int, int | None]]]()
    for position, node in enumerate(gm.graph.find_nodes(op="placeholder")):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and _is_plain(value):
            offset = value.storage_offset()
            known = offset if isinstance(offset, int) else None
            found.setdefault(storage_of(value), []).append((position, known))
    memories = tuple(Memory(tuple(views), key in written) for key, views in found.items())
    is_simple = len(memories) == 1 == len(memories[0].views)
    if is_simple or not any(m.written for m in memories) or _cannot_deoptimise(output):
        return None
    return Layout(memories)


def check_inputs_apart(
    gm: GraphModule, output: OutputGraph, read: Collection[int], written: Collection[int]
) -> None:
    """Show that inputs can be looked up of which one must not change when the other is written.

    Args:
        gm: the complete graph.
        output: what it belongs to.
        read: storages that must still be what they were.
        written: storages that the graph changes in place. One that is in `read` too is left to
            the caller.

    Raises:
        Refused: they cannot.
    """
    readers, writers = _inputs(gm, read), _inputs(gm, written)
    if not any(a != b for a in readers for b in writers):
        return
    if _cannot_deoptimise(output):
        raise Refused("alias-mutated", "Two inputs might share memory.")
    if not all((readers | writers).values()):
        raise Refused("alias-mutated", "An input that might share memory is no argument.")


def _inputs(gm: GraphModule, storages: Collection[int]) -> dict[int, bool]:
    """Those of some storages that inputs are in: whether all of these are plain arguments."""
    found = dict[int, bool]()
    for node in filter(is_input, gm.graph.nodes):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and (storage := storage_of(value)) in storages:
            plain = node.op == "placeholder" and _is_plain(value)
            found[storage] = found.get(storage, True) and plain
    return found


def _is_plain(value: torch.Tensor) -> bool:
    return isinstance(value, (FakeTensor, torch.nn.Parameter))


def _cannot_deoptimise(output: OutputGraph) -> bool:
    """True if the original code cannot run in the place of the graph."""
    return output.export or bool(output.random_calls)
