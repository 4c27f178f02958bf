"""Which integers a tensor may hold: torch's `ValueRanges`, bounded by a dtype or by a size.

`ValueRanges` counts with numbers without end. What the tensor's dtype cannot hold wraps, so a range
counts only if it `fits`. It also knows no bound that is a symbol; `Positions` adds one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, TypeAlias

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._sympy.value_ranges import ValueRanges

Size = int | torch.SymInt
Integers: TypeAlias = ValueRanges[Any]  # whole numbers; truth values count as 0 and 1

UNKNOWN: Final = ValueRanges.unknown_int()
"""Fits no dtype."""
TRUTHS: Final = ValueRanges(0, 1)
_LARGEST: Final = 2**63 - 1  # no size is larger


class Positions(ValueRanges[Any]):
    """The integers from `lower` up to, but not including, a size that is a symbol.

    Arithmetic takes it for a range up to the largest size, which it is, too.
    """

    def __init__(self, lower: int, stop: torch.SymInt) -> None:
        super().__init__(lower, _LARGEST - 1)
        object.__setattr__(self, "stop", stop)  # the base is a frozen dataclass

    stop: torch.SymInt

    def __eq__(self, other: object) -> bool:
        return self is other  # the base compares without `stop`

    __hash__ = object.__hash__


def between(low: int, stop: Size) -> Integers:
    """The integers from `low` up to, but not including, `stop`.

    `ValueRanges` cannot be empty. A tensor has no elements where this would be, so any range holds.
    """
    if isinstance(stop, torch.SymInt):
        return Positions(low, stop)
    return ValueRanges(low, max(low, stop - 1))


def union(one: Integers, other: Integers) -> Integers:
    """All that either has."""
    if isinstance(one, Positions) and isinstance(other, Positions) and one.stop is other.stop:
        return one if one.lower <= other.lower else other
    return one | other


def number_in(found: Integers) -> int | None:
    """The only integer a range has; None if there are others."""
    return int(found.lower) if found.is_singleton() else None


def is_within(found: Integers, low: int, stop: Size) -> bool:
    """True if a range is known to lie between two bounds; no guard is added."""
    if found is UNKNOWN or found.lower < low:
        return False
    if isinstance(found, Positions) and statically_known_true(found.stop <= stop):
        return True
    return bool(statically_known_true(int(found.upper) < stop))


def is_integral(tensor: torch.Tensor) -> bool:
    """True for a tensor of integers or truth values."""
    return not tensor.is_floating_point() and not tensor.is_complex()


@cache
def all_of(dtype: torch.dtype) -> Integers:
    """All that a dtype can hold; unknown if these are no integers."""
    if dtype is torch.bool:
        return TRUTHS
    if dtype.is_floating_point or dtype.is_complex:
        return UNKNOWN
    info = torch.iinfo(dtype)
    return ValueRanges(info.min, info.max)


def fits(found: Integers, dtype: torch.dtype) -> bool:
    """True if a dtype is one of integers and can hold all of a range."""
    limits = all_of(dtype)
    # `issubset` takes all for a part of the unknown range.
    return UNKNOWN not in (found, limits) and bool(found.issubset(limits))  # type: ignore[no-untyped-call]
