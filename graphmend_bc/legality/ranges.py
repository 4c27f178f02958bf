"""Between which numbers the elements of integer tensors lie, as far as their operators tell.

An index that cannot be out of bounds needs no check to protect it. What is not known to be smaller
has the range of its dtype. Sizes known only as symbols are compared without adding guards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.value_ranges import ValueRanges
from torch.utils.weak import WeakIdKeyDictionary

from graphmend_bc.legality.arithmetic import RULES
from graphmend_bc.legality.integers import (
    UNKNOWN,
    Integers,
    Size,
    all_of,
    between,
    fits,
    is_integral,
    is_within,
    number_in,
)
from graphmend_bc.legality.record import OpRecord
from graphmend_bc.legality.storage import storage_of


class Ranges:
    """The ranges of the tensors of one trace."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()
        self._columns: Any = WeakIdKeyDictionary()
        self._rows: Any = WeakIdKeyDictionary()

    def of(self, value: object) -> Integers:
        """The range of a tensor's elements, or of a number.

        Args:
            value: an operand of an operator.
        """
        if isinstance(value, torch.Tensor):
            constant = getattr(value, "constant", None)
            if constant is not None and _is_asked(constant):
                return ValueRanges(int(constant.min()), int(constant.max()))
            found: Integers = self._known.get(value) or all_of(value.dtype)
            return found
        if isinstance(value, (bool, int)):
            return ValueRanges(int(value), int(value))
        return UNKNOWN

    def number_in(self, value: object) -> int | None:
        """The only number that a tensor holds; None if it is not known, or there are others."""
        return number_in(self.of(value))

    def is_within(self, value: object, low: int, stop: Size) -> bool:
        """True if a tensor's elements are known to lie between two bounds."""
        return is_within(self.of(value), low, stop)

    def columns_of(self, value: object) -> Sequence[Integers]:
        """The ranges of the columns of what `nonzero` gave; empty for other tensors."""
        found: Sequence[Integers] = self._columns.get(value, ())
        return found

    def rows_of(self, value: object) -> Sequence[Integers]:
        """The ranges of the rows of a tensor that counts them; empty for other tensors."""
        found: Sequence[Integers] = self._rows.get(value, ())
        return found

    def count(self, tensor: torch.Tensor, length: int) -> None:
        """Learn that a tensor holds the number of each of its rows.

        Args:
            tensor: of one number in a row.
            length: how many rows it has.
        """
        self._rows[tensor] = [ValueRanges(row, row) for row in range(length)]

    def note(self, record: OpRecord) -> None:
        """Learn the ranges of an operator's results."""
        if record.name == "nonzero":
            sizes = record.args[0].shape
            self._columns[record.result] = [between(0, size) for size in sizes]
        rule = RULES.get(record.name)
        if rule is None or record.op._schema.is_mutable or not record.is_aten:
            return
        ranges = rule(self, _with_numbers(record))
        for result, found in zip(record.results(), ranges, strict=False):
            if is_integral(result) and fits(found, result.dtype):
                self._known[result] = found

    def forget(self, written: Collection[int]) -> None:
        """Some storages were written to: what lies there is not known any more."""
        for known in (self._known, self._columns, self._rows):
            for tensor in [tensor for tensor in known if storage_of(tensor) in written]:
                del known[tensor]

    def are_within(self, record: OpRecord) -> bool:
        """True if all indices that an operator is given are known to be in bounds."""
        bounds = _indices(record)
        return bounds is not None and all(
            statically_known_true(index.numel() == 0) or self.is_within(index, low, size)
            for index, low, size in bounds
        )


# Which indices an operator takes

_Bound = tuple[torch.Tensor, int, Size]


def _is_asked(constant: torch.Tensor) -> bool:
    """Whether the least and largest element can be asked for; torch knows those of no uint64."""
    known = is_integral(constant) and constant.dtype is not torch.uint64
    return known and constant.numel() > 0


def _indices(record: OpRecord) -> list[_Bound] | None:
    """The indices that an operator takes, each with its least value and the size, if known."""
    name, given = record.name.strip("_"), record.given()
    if name == "embedding":
        return [(given["indices"], 0, given["weight"].shape[0])]
    tensor = given.get("self")
    if name in ("index", "index_put"):
        return list(_subscripts(given["self"], given["indices"]))
    if name in _ALONG_DIMENSION and isinstance(tensor, torch.Tensor) and tensor.dim():
        return [(given["index"], 0, tensor.shape[given["dim"]])]
    return None


_ALONG_DIMENSION = frozenset(
    {
        *("gather", "scatter", "scatter_add", "scatter_reduce"),
        *("index_add", "index_copy", "index_fill", "index_select"),
    }
)


def _subscripts(tensor: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Iterator[_Bound]:
    dimension = 0
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            dimension += index.dim()  # a mask; its shape was compared while tracing
            continue
        if index is not None:
            size = tensor.shape[dimension]
            yield index, -size if isinstance(size, int) else 0, size
        dimension += 1


def _with_numbers(record: OpRecord) -> OpRecord:
    """The record with numbers for truth values, which sympy does not compute with."""
    kwargs = {name: _number(value) for name, value in record.kwargs.items()}
    return replace(record, args=tuple(map(_number, record.args)), kwargs=kwargs)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, bool) else value
