"""What each operator means to ranges: between which numbers the elements of its results lie.

The arithmetic is that of torch's `ValueRanges`. A result that could leave its dtype's range wraps,
and counts as unknown; so does one of an operand that the kernel makes another number.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, Final, Protocol

import torch
from torch.utils._sympy.value_ranges import SymPyValueRangeAnalysis as Compare
from torch.utils._sympy.value_ranges import ValueRanges

from graphmend_bc.legality.integers import (
    TRUTHS,
    UNKNOWN,
    Integers,
    between,
    fits,
    is_integral,
    union,
)
from graphmend_bc.legality.ops import VIEWS
from graphmend_bc.legality.record import OpRecord


class Known(Protocol):
    """What is known of the tensors of one trace; see `Ranges`."""

    def of(self, value: object) -> Integers: ...

    def rows_of(self, value: object) -> Sequence[Integers]: ...

    def columns_of(self, value: object) -> Sequence[Integers]: ...


Rule = Callable[[Known, OpRecord], Sequence[Integers]]
"""From what is known of an operator's operands to the ranges of its results."""


def _same(ranges: Known, record: OpRecord) -> Sequence[Integers]:
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


def _copied(ranges: Known, record: OpRecord) -> Sequence[Integers]:
    """The same in another dtype."""
    source = record.args[0]
    is_whole = not isinstance(source, torch.Tensor) or is_integral(source)
    return [ranges.of(source) if is_whole else UNKNOWN]


def _united(ranges: Known, record: OpRecord) -> Sequence[Integers]:
    """The result holds elements of several operands."""
    given = record.given()
    operands = given["tensors"] if "tensors" in given else (given.get("self"), given.get("other"))
    return [reduce(union, map(ranges.of, operands))]


def _constant(value: str | int) -> Rule:
    def rule(ranges: Known, record: OpRecord) -> Sequence[Integers]:
        return [ranges.of(record.given()[value] if isinstance(value, str) else value)]

    return rule


def _arange(ranges: Known, record: OpRecord) -> Sequence[Integers]:
    given = record.given()
    low, stop = given.get("start", 0), given["end"]
    whole = isinstance(low, int) and isinstance(stop, (int, torch.SymInt))
    return [between(low, stop) if whole and given.get("step", 1) == 1 else UNKNOWN]


def _positions(ranges: Known, record: OpRecord) -> Sequence[Integers]:
    """The last result holds positions along a dimension."""
    tensor, among = record.args[0], len(record.results()) > 1
    if not tensor.dim() or not (among or record.name.startswith("arg")):
        return [UNKNOWN]  # `max` of a whole tensor gives no position
    dim = record.given().get("dim", None if record.name in ("argmax", "argmin") else -1)
    positions = between(0, tensor.numel() if dim is None else tensor.shape[dim])
    return [UNKNOWN, positions] if among else [positions]


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Rule:
    """A result that lies between those of the operands' bounds."""

    def rule(ranges: Known, record: OpRecord) -> Sequence[Integers]:
        given = record.given()
        one, other = ranges.of(given["self"]), ranges.of(given["other"])
        if given.get("alpha", 1) != 1 or not _all_fit([one, other], record.result.dtype):
            return [UNKNOWN]
        return [ValueRanges.coordinatewise_monotone_map(one, other, compute)]  # type: ignore[no-untyped-call]

    return rule


def _all_fit(operands: Sequence[Integers], dtype: torch.dtype) -> bool:
    """True if operands are still the numbers they were where the kernel makes them this dtype."""
    return all(fits(operand, dtype) for operand in operands)


def _compared(compare: Callable[[Integers, Integers], Any]) -> Rule:
    """A truth value that is known if the operands' ranges do not meet."""

    def rule(ranges: Known, record: OpRecord) -> Sequence[Integers]:
        one, other = record.given()["self"], record.given()["other"]
        if not (isinstance(one, torch.Tensor) and _is_whole(one) and _is_whole(other)):
            return [TRUTHS]
        operands = [ranges.of(one), ranges.of(other)]
        if not _all_fit(operands, torch.result_type(one, other)):
            return [TRUTHS]
        truth = compare(*operands)
        return [ValueRanges(int(bool(truth.lower)), int(bool(truth.upper)))]

    return rule


def _is_whole(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return is_integral(value) and value.dtype is not torch.uint64
    return isinstance(value, int)


def _clamped(ranges: Known, record: OpRecord) -> Sequence[Integers]:
    given = record.given()
    least, most = given.get("min"), given.get("max")
    bounds = [bound for bound in (least, most) if bound is not None]
    operands = [ranges.of(operand) for operand in (given["self"], *bounds)]
    whole = all(isinstance(bound, int) for bound in bounds)
    if not whole or not _all_fit(operands, record.result.dtype):
        return [UNKNOWN]

    def clamp(number: Any) -> Any:
        number = number if least is None else max(number, least)
        return number if most is None else min(number, most)

    return [ValueRanges.increasing_map(operands[0], clamp)]


def _remainder(ranges: Known, record: OpRecord) -> Sequence[Integers]:
    """`ValueRanges` has the remainders of C only in some releases; these are Python's."""
    divisor = record.given()["other"]
    if isinstance(divisor, int) and divisor > 0 and fits(ranges.of(divisor), record.result.dtype):
        return [ValueRanges(0, divisor - 1)]
    return [UNKNOWN]


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
        "eq": _compared(Compare.eq),
        "ne": _compared(Compare.ne),
        "lt": _compared(Compare.lt),
        "ge": _compared(Compare.ge),
        "gt": _compared(Compare.gt),
        "le": _compared(Compare.le),
        "minimum": _arithmetic(min),
        "maximum": _arithmetic(max),
        "clamp": _clamped,
        "clamp_min": _clamped,
        "clamp_max": _clamped,
        "remainder": _remainder,
    }
)
