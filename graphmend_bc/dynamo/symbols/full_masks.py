"""Masks that are taken to be true everywhere: what they select is selected by all indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import input_storages, storages
from graphmend_bc.dynamo.symbols.key_dims import first_dims
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


class FullMask(NamedTuple):
    """A mask whose check is in the graph.

    Attributes:
        site: where it was assumed to be full.
        indices: those of all its elements, one tensor a dimension.
        writes: how often its memory had been written to by then.
    """

    site: Site
    indices: Sequence[VariableTracker]
    writes: int


@dataclass(slots=True, eq=False)
class FullMasks(Feature):
    """The masks of an attempt.

    Attributes:
        known: those whose check counts whichever way the program goes.
        saved: those that autograd would save, each with the site and the number of writes.
    """

    stays: ClassVar[bool] = True

    known: dict[Node, FullMask] = field(default_factory=dict)
    saved: list[tuple[Node, Site, int]] = field(default_factory=list)

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """Refuse masks that may be written to: a backward pass of eager Python would raise then."""
        if not self.saved:
            return
        shared = input_storages(gm.graph) | storages(gm.graph.output_node().all_input_nodes)
        for mask, site, writes in self.saved:
            if _storage(mask) in shared or _writes(compilation.trace, mask) != writes:
                detail = "Autograd would save it, and it may be written to later."
                raise SiteRefused(Refused("list-not-full", detail), site)


def with_all_indices(
    trace: Trace, target: VariableTracker, key: VariableTracker
) -> VariableTracker:
    """A key with the indices of all elements for each mask that is known to be full.

    Args:
        trace: the attempt that is running.
        target: what the key selects from.
        key: of a subscript that is read.
    """
    masks = trace.known(FullMasks)
    if masks is None or not masks.known or type(target) is not TensorVariable:
        return key
    items = items_of(key)
    known = [_known(trace, masks, item) for item in items]
    if not any(known) or not selects_dims_of_its_shape(target, items):
        return key
    return key_with_indices(trace, target, items, known)


def items_of(key: VariableTracker) -> list[VariableTracker]:
    """The items of a key, which is one itself if it is no tuple."""
    key = key.realize()
    return [item.realize() for item in key.items] if type(key) is TupleVariable else [key]


def key_with_indices(
    trace: Trace,
    target: VariableTracker,
    items: Sequence[VariableTracker],
    masks: Sequence[FullMask | None],
) -> VariableTracker:
    """The key with indices in place of masks.

    Args:
        trace: the attempt that is running.
        target: what the key selects from.
        items: of the key.
        masks: for each item, the mask that it is; None if it stays.
    """
    found: list[VariableTracker] = []
    for item, mask in zip(items, masks, strict=True):
        found += [item] if mask is None else mask.indices
        if mask is not None:
            _note_saved(trace, mask.site, target, item)
    return found[0] if len(found) == 1 else TupleVariable(found)


def _known(trace: Trace, masks: FullMasks, item: VariableTracker) -> FullMask | None:
    if type(item) is not TensorVariable:
        return None
    node = item.as_proxy().node
    mask = masks.known.get(node)
    return mask if mask is not None and _writes(trace, node) == mask.writes else None


def selects_dims_of_its_shape(target: VariableTracker, items: Sequence[VariableTracker]) -> bool:
    """Whether each mask of a key is known to have the sizes of the dimensions that it selects from.

    Eager Python raises where they differ; indices would do as long as they are in bounds.

    Args:
        target: a tensor.
        items: of the key.
    """
    shape = target.as_proxy().node.meta["example_value"].shape
    dims = first_dims(items, len(shape))
    return dims is not None and all(
        _is_shape(mask.shape, shape[dim : dim + mask.ndim])
        for item, dim in zip(items, dims, strict=True)
        if (mask := mask_in(item)) is not None
    )


def _is_shape(sizes: Sequence[object], others: Sequence[object]) -> bool:
    return [*sizes] == [*others] and all(type(size) is int for size in (*sizes, *others))


def mask_in(item: VariableTracker) -> torch.Tensor | None:
    """What Dynamo traces with for an item of a key that selects by being true; else None."""
    if type(item) is not TensorVariable:
        return None
    tensor: torch.Tensor = item.as_proxy().node.meta["example_value"]
    selects = tensor.dtype is torch.bool and tensor.ndim > 0
    return tensor if selects and tensor.layout is torch.strided else None


def full_mask(trace: Trace, site: Site, mask: Node, indices: Sequence[VariableTracker]) -> FullMask:
    """A mask that is taken to be true everywhere from here on.

    Args:
        trace: the attempt that is running.
        site: where it is assumed.
        mask: in the graph.
        indices: of all its elements, one tensor a dimension.
    """
    found = FullMask(site, indices, _writes(trace, mask))
    if not trace.predicates:  # else only the arm has the check
        trace.of(FullMasks).known[mask] = found
    return found


def _note_saved(trace: Trace, site: Site, target: VariableTracker, mask: VariableTracker) -> None:
    """A mask selects; autograd saves it if there may be a backward pass."""
    node = mask.as_proxy().node
    if torch.is_grad_enabled() and target.as_proxy().node.meta["example_value"].requires_grad:
        trace.of(FullMasks).saved.append((node, site, _writes(trace, node)))


def _writes(trace: Trace, mask: Node) -> int:
    assert trace.recorder is not None
    return trace.recorder.written.count(_storage(mask))


def _storage(mask: Node) -> int:
    return storage_of(mask.meta["example_value"])
