"""Masks that are computed twice from the same tensors select equally many elements.

h[~mask] += net(h[~mask])     the two indices are two tensors, of equal size

Dynamo remembers the size of what a mask selects with the mask itself; a mask that must be equal to
an earlier one is given what is remembered of that.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor

from graphmend_bc.legality.record import OpRecord
from graphmend_bc.legality.storage import storage_of

_MAKERS: Final = frozenset(
    {
        *("eq", "ne", "lt", "le", "gt", "ge", "isnan"),
        *("bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor"),
        *("logical_and", "logical_not", "logical_or", "logical_xor"),
        "unsqueeze",
    }
)


class Masks:
    """The masks of one trace."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], FakeTensor] = {}
        self._first: dict[int, FakeTensor] = {}  # by id, the first mask that was equal when made
        self._alive: list[OpRecord] = []  # ids must not be used again

    def note(self, record: OpRecord, written: list[int]) -> None:
        """An operator was run.

        Args:
            record: it.
            written: storages that were changed in place so far, one for each write.
        """
        mask = record.result
        if record.name not in _MAKERS or not isinstance(mask, FakeTensor) or record.kwargs:
            return
        if mask.dtype is not torch.bool or not all(type(a) in _PLAIN for a in record.args):
            return
        key = record.op, *(self._identity(operand, written) for operand in record.args)
        self._alive.append(record)
        first = self._first[id(mask)] = self._known.setdefault(key, mask)
        if first is not mask and storage_of(first) not in written:
            mask.nonzero_memo = first.nonzero_memo

    def _identity(self, operand: Any, written: list[int]) -> tuple[Any, ...]:
        if not isinstance(operand, torch.Tensor):
            return type(operand), operand
        writes = written.count(storage_of(operand))
        same = operand if writes else self._first.get(id(operand), operand)
        return id(same), writes


_PLAIN: Final = frozenset({FakeTensor, int, float, bool})
