"""Which dimensions of a tensor the items of a key select from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import SliceVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable

from graphmend_bc.dynamo.symbols.known_integers import is_index


def first_dims(items: Sequence[VariableTracker], dims: int) -> list[int] | None:
    """The first dimension that each item of a key selects from.

    Args:
        items: of the key.
        dims: how many dimensions the tensor has.

    Returns:
        None if it is not known, or the key has too many items.

    Example:
        In `x[:, None, mask, ..., 0]`, with a mask of two dimensions and `x` of five, these are
        0, 1, 1, 3, 4.
    """
    takes = [_takes(item) for item in items]
    if None in takes or takes.count(-1) > 1:
        return None
    known = cast(list[int], takes)
    left = dims - sum(max(taken, 0) for taken in known)
    if left < 0:
        return None
    found, dim = [], 0
    for taken in known:
        found.append(dim)
        dim += left if taken == -1 else taken
    return found


def _takes(item: VariableTracker) -> int | None:
    """How many dimensions a part of a key takes; -1 for an ellipsis, None if it is not known."""
    if is_index(item) or isinstance(item, (SliceVariable, SymNodeVariable)):
        return 1
    if type(item) is TensorVariable:
        tensor = item.as_proxy().node.meta["example_value"]
        is_mask = tensor.dtype in (torch.bool, torch.uint8)
        return (tensor.dim() or None) if is_mask else 1
    if not isinstance(item, ConstantVariable):
        return None
    value = item.value
    return {int: 1, type(None): 0, type(...): -1}.get(type(value))
