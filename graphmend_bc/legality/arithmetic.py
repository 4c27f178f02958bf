"""Interval arithmetic: between which numbers the elements of an operator's results lie.

A result that could leave its dtype's range wraps, and counts as unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Final, Protocol

import torch

from graphmend_bc.legality.interval import TRUTHS, UNKNOWN, Range, fits, is_integral
from graphmend_bc.legality.ops import VIEWS
from graphmend_bc.legality.record import OpRecord


class Known(Protocol):
    """What is known of the tensors of one trace; see `Ranges`."""

    def of(self, value: object) -> Range: ...

    def rows_of(self, value: object) -> Sequence[Range]: ...

    def columns_of(self, value: object) -> Sequence[Range]: ...


Rule = Callable[[Known, OpRecord], Sequence[Range]]
"""From what is known of an operator's operands to the ranges of its results."""


def _same(ranges: Known, record: OpRecord) -> Sequence[Range]:
    """The results hold elements of the first operand."""
    source, given = record.args[0], record.given()
    dim = given.get("dim", 0)
    parts = ranges.rows_of(source) if dim == 0 else ranges.columns_of(source) if dim == 1 else ()
    if parts and record.name == "unbind":
        return parts
    if parts and record.name == "select" and isinstance(given["index"], int):
        return [parts[given["index"]]]
    return [
        ranges.of(source) if result.dtype is source.dtype else UNKNOWN
        for result in record.results()
    ]


def _copied(ranges: Known, record: OpRecord) -> Sequence[Range]:
    """The same in another dtype."""
    source = record.args[0]
    return [ranges.of(source) if is_integral(source) else UNKNOWN]


def _united(ranges: Known, record: OpRecord) -> Sequence[Range]:
    """The result holds elements of several operands."""
    given = record.given()
    operands = given["tensors"] if "tensors" in given else (given.get("self"), given.get("other"))
    return [reduce(operator.or_, map(ranges.of, operands))]


def _constant(value: str | int) -> Rule:
    def rule(ranges: Known, record: OpRecord) -> Sequence[Range]:
        return [ranges.of(record.given()[value] if isinstance(value, str) else value)]

    return rule


def _arange(ranges: Known, record: OpRecord) -> Sequence[Range]:
    given = record.given()
    low, stop = given.get("start", 0), given["end"]
    whole = isinstance(low, int) and isinstance(stop, (int, torch.SymInt))
    return [Range(low, stop) if whole and given.get("step", 1) == 1 else UNKNOWN]


def _positions(ranges: Known, record: OpRecord) -> Sequence[Range]:
    """The last result holds positions along a dimension."""
    tensor, among = record.args[0], len(record.results()) > 1
    if not tensor.dim() or not (among or record.name.startswith("arg")):
        return [UNKNOWN]  # `max` of a whole tensor gives no position
    dim = record.given().get("dim", None if record.name in ("argmax", "argmin") else -1)
    positions = Range(0, tensor.numel() if dim is None else tensor.shape[dim])
    return [UNKNOWN, positions] if among else [positions]


def _arithmetic(compute: Callable[[int, int], int]) -> Rule:
    """A result that lies between those of the operands' bounds."""

    def rule(ranges: Known, record: OpRecord) -> Sequence[Range]:
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


def _compared(compare: Callable[[Range, Range], bool | None], *, negated: bool = False) -> Rule:
    """A truth value that is known if the operands' ranges do not meet."""

    def rule(ranges: Known, record: OpRecord) -> Sequence[Range]:
        operands = record.given()["self"], record.given()["other"]
        if not all(map(_is_whole, operands)) or not _promote(*operands):
            return [TRUTHS]
        one, other = map(ranges.of, operands)
        if not (isinstance(one.stop, int) and isinstance(other.stop, int)):
            return [TRUTHS]
        truth = compare(one, other)
        return [TRUTHS if truth is None else ranges.of(truth is not negated)]

    return rule


def _is_whole(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return is_integral(value) and value.dtype is not torch.uint64
    return isinstance(value, int)


def _promote(one: object, other: object) -> bool:
    """True if two operands can be compared as the numbers they are."""
    if isinstance(one, torch.Tensor) and isinstance(other, int) and one.dtype is not torch.bool:
        return fits(Range(other, other + 1), one.dtype)
    return isinstance(one, torch.Tensor)


def _is_below(one: Range, other: Range) -> bool | None:
    (_, high), (low, _) = _ends(one), _ends(other)
    if high < low:
        return True
    return False if one.low >= _ends(other)[1] else None


def _is_equal(one: Range, other: Range) -> bool | None:
    if one.number is not None and one.number == other.number:
        return True
    return False if _is_below(one, other) or _is_below(other, one) else None


def _clamped(ranges: Known, record: OpRecord) -> Sequence[Range]:
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


def _remainder(ranges: Known, record: OpRecord) -> Sequence[Range]:
    divisor = record.given()["other"]
    return [Range(0, divisor) if isinstance(divisor, int) and divisor > 0 else UNKNOWN]


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
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
        "eq": _compared(_is_equal),
        "ne": _compared(_is_equal, negated=True),
        "lt": _compared(_is_below),
        "ge": _compared(_is_below, negated=True),
        "gt": _compared(lambda one, other: _is_below(other, one)),
        "le": _compared(lambda one, other: _is_below(other, one), negated=True),
        "minimum": _arithmetic(min),
        "maximum": _arithmetic(max),
        "clamp": _clamped,
        "clamp_min": _clamped,
        "clamp_max": _clamped,
        "remainder": _remainder,
    }
)
