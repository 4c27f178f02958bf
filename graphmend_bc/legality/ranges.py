"""Between which numbers the elements of integer tensors lie, as far as their operators tell.

An index that cannot be out of bounds needs no check to protect it. What is not known to be smaller
has the range of int64. Sizes known only as symbols are compared without adding guards.

The rules are those of interval arithmetic; a result that could leave its dtype's range wraps, and
counts as unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils.weak import WeakIdKeyDictionary

from graphmend_bc.legality.alias import storage_of
from graphmend_bc.legality.ops import VIEWS
from graphmend_bc.legality.record import OpRecord

Size = int | torch.SymInt


@dataclass(frozen=True, slots=True)
class Range:
    """The integers from `low` up to, but not including, `stop`."""

    low: int
    stop: Size

    def __or__(self, other: Range) -> Range:
        if not isinstance(self.stop, int) or not isinstance(other.stop, int):
            stop = self.stop if self.stop is other.stop else UNKNOWN.stop
            return Range(min(self.low, other.low), stop)
        return Range(min(self.low, other.low), max(self.stop, other.stop))

    def is_within(self, low: int, stop: Size) -> bool:
        """True if it is known to lie between two bounds."""
        return self.low >= low and statically_known_true(self.stop <= stop)


UNKNOWN: Final = Range(-(2**63), 2**63)
TRUTHS: Final = Range(0, 2)


class Ranges:
    """The ranges of the tensors of one trace."""

    def __init__(self) -> None:
        self._known: Any = WeakIdKeyDictionary()
        self._columns: Any = WeakIdKeyDictionary()

    def of(self, value: object) -> Range:
        """The range of a tensor's elements, or of a number.

        Args:
            value: an operand of an operator.
        """
        if isinstance(value, torch.Tensor):
            if value.dtype is torch.bool:
                return TRUTHS
            constant = getattr(value, "constant", None)
            if constant is not None and _is_integral(constant) and constant.numel():
                return Range(int(constant.min()), int(constant.max()) + 1)
            found: Range = self._known.get(value, UNKNOWN)
            return found
        if isinstance(value, (bool, int)):
            return Range(int(value), int(value) + 1)
        return UNKNOWN

    def columns_of(self, value: object) -> Sequence[Range]:
        """The ranges of the columns of what `nonzero` gave; empty for other tensors."""
        found: Sequence[Range] = self._columns.get(value, ())
        return found

    def note(self, record: OpRecord) -> None:
        """Learn the ranges of an operator's results."""
        if record.name == "nonzero":
            sizes = record.args[0].shape
            self._columns[record.result] = [Range(0, size) for size in sizes]
        rule = _RULES.get(record.name)
        if rule is None or record.op._schema.is_mutable:
            return
        results = record.results()
        for result, found in zip(results, rule(self, record), strict=False):
            if _is_integral(result) and found is not UNKNOWN and _fits(found, result.dtype):
                self._known[result] = found

    def forget(self, written: Collection[int]) -> None:
        """Some storages were written to: what lies there is not known any more."""
        for known in (self._known, self._columns):
            for tensor in [tensor for tensor in known if storage_of(tensor) in written]:
                del known[tensor]

    def are_within(self, record: OpRecord) -> bool:
        """True if all indices that an operator is given are known to be in bounds."""
        bounds = _indices(record)
        return bounds is not None and all(
            self.of(index).is_within(low, size) for index, low, size in bounds
        )


def _is_integral(tensor: torch.Tensor) -> bool:
    return not tensor.is_floating_point() and not tensor.is_complex()


def _fits(found: Range, dtype: torch.dtype) -> bool:
    if dtype is torch.bool or not isinstance(found.stop, int):
        return True
    info = torch.iinfo(dtype)
    return info.min <= found.low and found.stop - 1 <= info.max


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


# What is known of results

_Rule = Callable[[Ranges, OpRecord], Sequence[Range]]


def _same(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    """The results hold elements of the first operand."""
    source, given = record.args[0], record.given()
    columns = ranges.columns_of(source) if given.get("dim") == 1 else ()
    if columns and record.name == "unbind":
        return columns
    if columns and record.name == "select" and isinstance(given["index"], int):
        return [columns[given["index"]]]
    return [
        ranges.of(source) if result.dtype is source.dtype else UNKNOWN
        for result in record.results()
    ]


def _copied(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    """The same in another dtype."""
    source = record.args[0]
    return [ranges.of(source) if _is_integral(source) else UNKNOWN]


def _united(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    """The result holds elements of several operands."""
    given = record.given()
    operands = given["tensors"] if "tensors" in given else (given.get("self"), given.get("other"))
    return [reduce(operator.or_, map(ranges.of, operands))]


def _constant(value: str | int) -> _Rule:
    def rule(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
        return [ranges.of(record.given()[value] if isinstance(value, str) else value)]

    return rule


def _arange(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    given = record.given()
    low, stop = given.get("start", 0), given["end"]
    whole = isinstance(low, int) and isinstance(stop, (int, torch.SymInt))
    return [Range(low, stop) if whole and given.get("step", 1) == 1 else UNKNOWN]


def _positions(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    """The last result holds positions along a dimension."""
    tensor, among = record.args[0], len(record.results()) > 1
    if not tensor.dim() or not (among or record.name.startswith("arg")):
        return [UNKNOWN]  # `max` of a whole tensor gives no position
    dim = record.given().get("dim", None if record.name in ("argmax", "argmin") else -1)
    positions = Range(0, tensor.numel() if dim is None else tensor.shape[dim])
    return [UNKNOWN, positions] if among else [positions]


def _arithmetic(compute: Callable[[int, int], int]) -> _Rule:
    """A result that lies between those of the operands' bounds."""

    def rule(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
        given = record.given()
        one, other = ranges.of(given["self"]), ranges.of(given["other"])
        if not (isinstance(one.stop, int) and isinstance(other.stop, int)):
            return [UNKNOWN]
        if given.get("alpha", 1) != 1:
            return [UNKNOWN]
        bounds = [compute(a, b) for a in _ends(one) for b in _ends(other)]
        return [Range(min(bounds), max(bounds) + 1)]

    return rule


def _ends(found: Range) -> tuple[int, int]:
    assert isinstance(found.stop, int)
    return found.low, found.stop - 1


def _clamped(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    given = record.given()
    least, most, found = given.get("min"), given.get("max"), ranges.of(given["self"])
    if not all(bound is None or isinstance(bound, int) for bound in (least, most, found.stop)):
        return [UNKNOWN]
    low, high = _ends(found)
    if least is not None:
        low, high = max(low, least), max(high, least)
    if most is not None:
        low, high = min(low, most), min(high, most)
    return [Range(low, high + 1)]


def _remainder(ranges: Ranges, record: OpRecord) -> Sequence[Range]:
    divisor = record.given()["other"]
    return [Range(0, divisor) if isinstance(divisor, int) and divisor > 0 else UNKNOWN]


_RULES: Final[Mapping[str, _Rule]] = MappingProxyType(
    {
        **dict.fromkeys(VIEWS, _same),
        **dict.fromkeys(
            (
                *("clone", "contiguous", "flip", "gather", "index", "index_select"),
                *("masked_select", "repeat", "roll"),
            ),
            _same,
        ),
        **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), _constant(0)),
        **dict.fromkeys(("ones", "ones_like", "new_ones"), _constant(1)),
        **dict.fromkeys(("full", "full_like", "new_full"), _constant("fill_value")),
        "scalar_tensor": _constant("s"),
        **dict.fromkeys(("argmax", "argmin", "argsort", "max", "min", "sort", "topk"), _positions),
        "_to_copy": _copied,
        "arange": _arange,
        "cat": _united,
        "stack": _united,
        "where": _united,
        "add": _arithmetic(operator.add),
        "sub": _arithmetic(operator.sub),
        "rsub": _arithmetic(lambda one, other: other - one),
        "mul": _arithmetic(operator.mul),
        "minimum": _arithmetic(min),
        "maximum": _arithmetic(max),
        "clamp": _clamped,
        "clamp_min": _clamped,
        "clamp_max": _clamped,
        "remainder": _remainder,
    }
)
