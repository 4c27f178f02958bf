"""A mask that selects is taken to be true everywhere, so that it is known how much it selects.

    x[mask]      x[torch.arange(len(mask))]; mask.all() is checked

Eager Python selects by the indices at which the mask is true. Those of such a mask are all indices,
in their order, so the operator and its gradient are the same.
"""

from __future__ import annotations

from typing import cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.speculation.speculate import speculate
from graphmend_bc.dynamo.symbols.full_masks import (
    FullMask,
    full_mask,
    items_of,
    key_with_indices,
    mask_in,
    selects_dims_of_its_shape,
)
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import CalledOperation, Marker, Site, Speculate


def selected_by_full_masks(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: a subscript of a tensor whose key is a mask or has masks among its items.

    Raises:
        SiteRefused: there is no mask, or one is false somewhere in this call.
    """
    assert isinstance(marker, CalledOperation)
    target, key = (operand.realize() for operand in args[0].unpack_var_sequence(tx))
    try:
        check_is_outermost(tx)
        key = _with_all_indices(tx, compilation, marker.site, target, key)
    except Refused as refused:
        raise SiteRefused(refused, marker.site) from refused
    return BuiltinVariable(marker.function).call_function(tx, [target, key], {})


def _with_all_indices(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    target: VariableTracker,
    key: VariableTracker,
) -> VariableTracker:
    """The key with the indices of all elements of a mask for each mask."""
    items = items_of(key)
    masks = [item for item in items if mask_in(item) is not None]
    if type(target) is not TensorVariable or not masks:
        raise Refused("list-not-full", "There is no tensor that selects by being true or false.")
    if not selects_dims_of_its_shape(target, items):
        raise Refused("list-not-full", "It may have another shape than what it selects from.")
    known = [_full(tx, compilation, site, item) if item in masks else None for item in items]
    return key_with_indices(compilation.trace, target, items, known)


def _full(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, mask: VariableTracker
) -> FullMask:
    """A mask that is taken to be full, and that the graph checks.

    Raises:
        Refused: it is not full in this call, or that cannot be seen.
    """
    # What cannot be seen may be padding, of which there mostly is some.
    is_full = speculate(tx, compilation, Speculate(site, likely=False), call(tx, "all", mask))
    if not is_full:
        raise Refused("list-not-full", "It is false somewhere.")
    node = mask.as_proxy().node
    tensor = cast(torch.Tensor, node.meta["example_value"])
    found = [_indices(tx, tensor, dim) for dim in range(tensor.ndim)]
    return full_mask(compilation.trace, site, node, found)


def _indices(tx: InstructionTranslatorBase, mask: torch.Tensor, dim: int) -> VariableTracker:
    """The indices in one dimension, as `mask.nonzero(as_tuple=True)` gives them."""
    size = mask.shape[dim]
    made = call(tx, "arange", size, device=mask.device)
    if mask.ndim == 1:
        return made
    ahead = [size if other == dim else 1 for other in range(mask.ndim)]
    spread = method(tx, "expand", method(tx, "view", made, ahead), tuple(mask.shape))
    return method(tx, "reshape", spread, -1)
