"""Tensors that are given the memory of another one, as by `p.data = q`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Node
from torch.multiprocessing.reductions import StorageWeakRef

from graphmend_bc.legality.kernels import is_same_view
from graphmend_bc.legality.storage import storage_of, storage_reference

EXCHANGING: Final = frozenset(("set_", "shallow_copy_data_"))
"""The names of the operators. Fake tensors keep their memory in the second, as Dynamo has it."""


@dataclass(slots=True)
class Exchange:
    """A tensor that is given other memory.

    Attributes:
        node: of the graph, which does that.
        before: the memory that it had, whose number is given to no other while this is held.
        given: the memory that it gets; None if that is not a tensor's.
        fits: whether size, strides and dtype stay what they were.
        learns: whether the tensor requires a gradient, which Dynamo's copy of it may not say.
        after: the number of the memory that the fake tensor has afterwards.
    """

    node: Node | None
    before: StorageWeakRef
    given: StorageWeakRef | None
    fits: bool
    learns: bool
    after: int = 0


def exchange_by(op: OpOverload, args: Sequence[Any], node: Node | None) -> Exchange | None:
    """What an operator that is about to run gives other memory to; None if it does not.

    Args:
        op: the operator.
        args: its arguments. `p.data = p.data.to(d)` often gives `p` the memory that it has.
        node: of the graph that runs it.
    """
    if op.overloadpacket.__name__ not in EXCHANGING:
        return None
    tensor, given = args[0], args[1] if len(args) == 2 else None
    before, learns = storage_reference(tensor), tensor.requires_grad
    if not isinstance(given, torch.Tensor):
        return Exchange(node, before, None, fits=False, learns=learns)
    if before.cdata == storage_of(given) and is_same_view(tensor, given):
        return None
    fits = type(tensor) is type(given) is FakeTensor and _has_form_of(tensor, given)
    return Exchange(node, before, storage_reference(given), fits, learns)


def _has_form_of(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether nothing but memory changes; symbolic numbers are not to be asked for a guard."""
    forms = [(t.dtype, t.device, t.shape, t.stride(), t.layout) for t in (tensor, other)]
    return str(forms[0]) == str(forms[1])
