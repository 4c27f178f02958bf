"""Numbers that fake tensors remember of themselves, after their memory was written to another way.

A fake tensor gives the same symbol when it is asked for its number, or for how many of its elements
are true, until its version changes. A write through `.data`, or through a tensor that shares its
memory without being a view of it, changes the memory and not the version.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Collection
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, SymNumberMemoDescriptor

from graphmend_bc.legality.record import OpRecord
from graphmend_bc.legality.storage import storage_of

_MEMOS: Final = tuple(
    name
    for name, value in vars(FakeTensor).items()
    if isinstance(value, SymNumberMemoDescriptor) and name != "nested_int_memo"
)
_TAGS: Final = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


class ValueMemos:
    """The tensors of one trace that remember numbers."""

    def __init__(self) -> None:
        self._asked: list[weakref.ref[torch.Tensor]] = []

    def note(self, record: OpRecord, written: Collection[int]) -> None:
        """An operator ran, which may have asked its operands, or written to what was asked.

        Args:
            record: of the operator.
            written: the storages that it wrote to.
        """
        if _asks(record.op):
            dense = (tensor for tensor in record.tensors() if tensor.layout is torch.strided)
            self._asked += map(weakref.ref, dense)
        for reference in self._asked if written else ():
            tensor: Any = reference()
            if tensor is not None and storage_of(tensor) in written:
                for memo in _MEMOS:
                    setattr(tensor, memo, None)


@functools.cache
def _asks(op: OpOverload) -> bool:
    return not _TAGS.isdisjoint(op.tags)
