"""Kinds of numbers and dtypes, each of which holds those before: `x - True` has no kernel."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

import torch

from graphmend_bc.legality.record import OpRecord, written_by


class TensorKind(IntEnum):
    """What a number or the elements of a tensor are."""

    BOOL = 0
    INT = 1
    FLOAT = 2
    COMPLEX = 3

    @classmethod
    def of(cls, value: object) -> TensorKind:
        """The kind of a dtype or of a number, which may be symbolic."""
        if isinstance(value, torch.dtype):
            if value.is_complex:
                return cls.COMPLEX
            return cls.FLOAT if value.is_floating_point else cls(int(value is not torch.bool))
        if isinstance(value, (bool, torch.SymBool)):
            return cls.BOOL
        if isinstance(value, (int, torch.SymInt)):
            return cls.INT
        return cls.FLOAT if isinstance(value, (float, torch.SymFloat)) else cls.COMPLEX


def takes_kinds(record: OpRecord, numbers: Mapping[str, object]) -> bool:
    """True unless a number is of a kind that an operator does not take with such tensors.

    Args:
        record: the operator.
        numbers: its numbers, by the names of the schema.
    """
    kinds = {name: TensorKind.of(number) for name, number in numbers.items()}
    if record.name.removesuffix("_") in ("sub", "rsub") and TensorKind.BOOL in kinds.values():
        return False
    if (alpha := kinds.get("alpha")) is not None:
        results = [max(TensorKind.of(tensor.dtype), TensorKind.INT) for tensor in record.results()]
        if alpha is TensorKind.BOOL or any(alpha > result for result in results):
            return False
    widest = max(kinds.values(), default=TensorKind.BOOL)
    if any(widest > TensorKind.of(tensor.dtype) for tensor in written_by(record)):
        return False
    return widest < TensorKind.COMPLEX or all(tensor.is_complex() for tensor in record.tensors())
