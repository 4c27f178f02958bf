"""Between which numbers the elements of integer tensors lie, as far as their operators tell.

An index that cannot be out of bounds needs no check to protect it. What is not known to be smaller
has the range of int64. Sizes known only as symbols are compared without adding guards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from graphmend_bc.legality.alias import storage_of
from graphmend_bc.legality.arithmetic import RULES
from graphmend_bc.legality.interval import TRUTHS, UNKNOWN, Range, Size, fits, is_integral
from graphmend_bc.legality.record import OpRecord


class Ranges:
    """The ranges of the tensors of one trace."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()
        self._columns: Any = WeakIdKeyDictionary()
        self._rows: Any = WeakIdKeyDictionary()

    def of(self, value: object) -> Range:
        """The range of a tensor's elements, or of a number.

        Args:
            value: an operand of an operator.
        """
        if isinstance(value, torch.Tensor):
            constant = getattr(value, "constant", None)
            if constant is not None and is_integral(constant) and constant.numel():
                return Range(int(constant.min()), int(constant.max()) + 1)
            unknown = TRUTHS if value.dtype is torch.bool else UNKNOWN
            found: Range = self._known.get(value, unknown)
            return found
        if isinstance(value, (bool, int)):
            return Range(int(value), int(value) + 1)
        return UNKNOWN

    def columns_of(self, value: object) -> Sequence[Range]:
        """The ranges of the columns of what `nonzero` gave; empty for other tensors."""
        found: Sequence[Range] = self._columns.get(value, ())
        return found

    def rows_of(self, value: object) -> Sequence[Range]:
        """The ranges of the rows of a tensor that counts them; empty for other tensors."""
        found: Sequence[Range] = self._rows.get(value, ())
        return found

    def count(self, tensor: torch.Tensor, length: int) -> None:
        """Learn that a tensor holds the number of each of its rows.

        Args:
            tensor: of one number in a row.
            length: how many rows it has.
        """
        self._rows[tensor] = [Range(row, row + 1) for row in range(length)]

    def note(self, record: OpRecord) -> None:
        """Learn the ranges of an operator's results."""
        if record.name == "nonzero":
            sizes = record.args[0].shape
            self._columns[record.result] = [Range(0, size) for size in sizes]
        rule = RULES.get(record.name)
        if rule is None or record.op._schema.is_mutable:
            return
        results = record.results()
        for result, found in zip(results, rule(self, record), strict=False):
            if is_integral(result) and found is not UNKNOWN and fits(found, result.dtype):
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
            self.of(index).is_within(low, size) for index, low, size in bounds
        )


# Which indices an operator takes

_Bound = tuple[torch.Tensor, int, Size]


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
