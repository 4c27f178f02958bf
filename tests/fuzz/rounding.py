"""Differences of what Inductor computes from what eager Python computes: the last digits of numbers."""

from __future__ import annotations

import math
import re
from itertools import starmap
from typing import Any, Final

from graphmend_bc.testing.observation import FIELDS, Observed

_NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)(?![\w.])")
"""A float in a text."""

_TOLERANCES: Final = {"torch.float16": 1e-2, "torch.bfloat16": 5e-2}
_TOLERANCE: Final = 1e-4
"""How far numbers may be apart, of the larger one or of one."""


def is_rounding(expected: list[Observed], actual: list[Observed]) -> bool:
    """True if two arms differ at most in the last digits of floats.

    Args:
        expected: what eager Python gives.
        actual: what compiled code gives.
    """
    pairs = zip(expected, actual, strict=True)
    return all(_alike(getattr(a, name), getattr(b, name)) for a, b in pairs for name in FIELDS)


def _alike(want: Any, got: Any, tolerance: float = _TOLERANCE) -> bool:
    if want == got:
        return True
    if isinstance(want, str) and isinstance(got, str):
        if _NUMBER.sub("", want) != _NUMBER.sub("", got):
            return False
        numbers = zip(_NUMBER.findall(want), _NUMBER.findall(got), strict=True)
        return all(_is_near(float(a), float(b), tolerance) for a, b in numbers)
    if not isinstance(want, (list, tuple)) or type(want) is not type(got) or len(want) != len(got):
        return False
    if want and isinstance(want[0], str):  # a tensor begins with its dtype
        tolerance = _TOLERANCES.get(want[0], tolerance)
    return all(starmap(lambda a, b: _alike(a, b, tolerance), zip(want, got, strict=True)))


def _is_near(a: float, b: float, tolerance: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
