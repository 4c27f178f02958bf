"""An interval of integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

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

    @property
    def number(self) -> int | None:
        """The only integer it has; None if there are others."""
        return self.low if self.stop == self.low + 1 else None

    def is_within(self, low: int, stop: Size) -> bool:
        """True if it is known to lie between two bounds."""
        return self.low >= low and statically_known_true(self.stop <= stop)


UNKNOWN: Final = Range(-(2**63), 2**63)
TRUTHS: Final = Range(0, 2)


def is_integral(tensor: torch.Tensor) -> bool:
    """True for a tensor of integers or truth values."""
    return not tensor.is_floating_point() and not tensor.is_complex()


def fits(found: Range, dtype: torch.dtype) -> bool:
    """True if all of a range can be had in a dtype."""
    if not isinstance(found.stop, int):
        return dtype is not torch.bool
    if dtype is torch.bool:
        return found.is_within(TRUTHS.low, TRUTHS.stop)
    info = torch.iinfo(dtype)
    return info.min <= found.low and found.stop - 1 <= info.max
