"""How long calls took in eager Python, with stock torch.compile and mended, and what that says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from graphmend_bc.reporting.durations import duration, unit_of
from graphmend_bc.reporting.table import Table

WHEN = ("first", "at rest")
"""The calls that are timed."""

TITLES = ("call", "eager", "stock", "mended")
"""Columns of a table of times."""

_ENOUGH = 5
"""Calls without which nothing is said about a gain."""


@dataclass(frozen=True, slots=True)
class CallTimes:
    """Calls of one version of a function.

    Attributes:
        first_ns: nanoseconds of the first call, in which the function is compiled.
        rest_ns: nanoseconds of each call at rest, which is when nothing is compiled any more.

    Example:
        >>> print(CallTimes(2_000_000_000, (1_000, 2_000, 3_000, 9_000, 4_000)))
        3 us [2, 4]
    """

    first_ns: int
    rest_ns: Sequence[int]

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Of the calls at rest: what a quarter, a half and three quarters of them took at most."""
        if len(self.rest_ns) == 1:
            return (self.rest_ns[0],) * 3
        low, middle, high = quantiles(self.rest_ns, n=4, method="inclusive")
        return low, middle, high

    @property
    def median(self) -> float:
        """Nanoseconds of a call at rest."""
        return self.quartiles[1]

    def __str__(self) -> str:
        low, middle, high = self.quartiles
        unit, size = unit_of(middle)
        return f"{middle / size:.3g} {unit} [{low / size:.3g}, {high / size:.3g}]"

    def as_dict(self) -> dict[str, Any]:
        """The times in the form of JSON."""
        low, middle, high = map(round, self.quartiles)
        return {
            "first_ns": self.first_ns,
            "median_ns": middle,
            "quartiles_ns": [low, high],
            "calls_at_rest": len(self.rest_ns),
        }


@dataclass(frozen=True, slots=True)
class Timed:
    """One call, repeated in three versions of a function.

    Attributes:
        eager, stock, mended: the versions.
        drift: the larger of the medians of eager calls that were made beside stock's and beside
            mended ones, as a multiple of the smaller. A difference below it shows nothing.
        notes: sentences that say why the calls were not all the same call.
        is_settled: False if calls that should have been at rest were compiled.
    """

    eager: CallTimes
    stock: CallTimes
    mended: CallTimes
    drift: float = 1.0
    notes: tuple[str, ...] = ()
    is_settled: bool = True

    def table(self, *label: str) -> Table:
        """A row for the first call and one for calls at rest.

        Args:
            label: the function's name, for tables of several; it is the first column then.
        """
        versions = (self.eager, self.stock, self.mended)
        first = [WHEN[0], *(duration(times.first_ns) for times in versions)]
        rest = [WHEN[1], *map(str, versions)]
        title = ["compiled"] if label else []
        return Table([*title, *TITLES], [[*label, *first], [*label, *rest]])

    def gain(self) -> str:
        """What mending gains over stock and over eager Python, in a sentence or two."""
        fewest = min(len(times.rest_ns) for times in (self.eager, self.stock, self.mended))
        if not self.is_settled:
            return "No gain is stated, because the function does not come to rest."
        if fewest < _ENOUGH:
            return (
                f"No gain is stated: in the time given only {fewest} of "
                f"{_ENOUGH} needed calls at rest could be made."
            )
        return f"{self._over_stock()} {self._over_eager()}"

    def _over_stock(self) -> str:
        mended, stock = self.mended, self.stock
        more = mended.first_ns - stock.first_ns
        took = f"mended, a call at rest takes {duration(mended.median)}"
        if not self.differ(mended, stock):
            return (
                f"{_sentence(took)} and with stock {duration(stock.median)}: "
                "no difference that these calls show."
            )
        ratio = f"{max(stock.median, mended.median) / min(stock.median, mended.median):.2f}"
        if mended.median < stock.median:
            saved = stock.median - mended.median
            text = f"{took}, which is {ratio} times as fast as stock's {duration(stock.median)}"
            if more <= 0:
                return f"{_sentence(text)}; its first call took {duration(-more)} less, too."
            return (
                f"{_sentence(text)}; what its first call took more ({duration(more)}) is earned "
                f"back after about {_calls(more / saved)}."
            )
        lost = mended.median - stock.median
        text = f"{took}, which is {ratio} times as long as stock's {duration(stock.median)}"
        if more >= 0:
            return f"{_sentence(text)}; its first call took {duration(more)} more, too."
        return (
            f"{_sentence(text)}; what its first call took less ({duration(-more)}) is used up "
            f"after about {_calls(-more / lost)}."
        )

    def _over_eager(self) -> str:
        eager, mended = self.eager, self.mended
        takes = f"An eager call takes {duration(eager.median)}"
        saved = eager.median - mended.median
        if saved <= 0:
            return f"{takes}, so the time of compiling is not earned back."
        if not self.differ(mended, eager):
            return (
                f"{takes}: no difference that these calls show, so it is not known whether the "
                "time of compiling is earned back."
            )
        calls = _calls((mended.first_ns - eager.median) / saved)
        return f"{takes}: the time of compiling is earned back after about {calls}."

    def differ(self, one: CallTimes, other: CallTimes) -> bool:
        """Whether the middle halves lie apart, by more than eager calls differ from each other."""
        slow, fast = sorted((one, other), key=lambda times: times.median, reverse=True)
        apart = slow.quartiles[0] > fast.quartiles[2]
        return apart and slow.median > fast.median * self.drift

    def as_dict(self) -> dict[str, Any]:
        """The times in the form of JSON, with what they say."""
        versions = {"eager": self.eager, "stock": self.stock, "mended": self.mended}
        return {
            **{name: times.as_dict() for name, times in versions.items()},
            "drift": round(self.drift, 3),
            "notes": list(self.notes),
            "gain": self.gain(),
        }


def _calls(number: float) -> str:
    """A number of calls with two digits, which is more than times allow."""
    needed = max(1, math.ceil(number))
    digits = 10 ** max(0, len(str(needed)) - 2)
    rounded = math.ceil(needed / digits) * digits
    return "1 call" if rounded == 1 else f"{rounded:,} calls".replace(",", " ")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
