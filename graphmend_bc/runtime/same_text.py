"""Whether two texts are the same, but for the rounding of numbers that were computed."""

from __future__ import annotations

import re
from typing import Final

RELATIVE: Final = 1.3e-6
"""torch's tolerance for float32: a number may come from such a tensor."""

_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.\d*(?:e[-+]?\d+)?|\d*\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+)")


def same_text(want: str, got: str) -> bool:
    """Whether two texts differ in no more than the last digits of numbers with a fraction.

    Example:
        >>> same_text("loss 0.1234", "loss 0.1235"), same_text("loss 0.1234", "loss 0.1334")
        (True, False)
        >>> same_text("step 3", "step 4")
        False
    """
    if want == got:
        return True
    if _NUMBER.split(want) != _NUMBER.split(got):
        return False
    pairs = zip(_NUMBER.findall(want), _NUMBER.findall(got), strict=True)
    return all(
        abs(float(one) - float(other)) <= _last_digit(one) * 1.01 + RELATIVE * abs(float(one))
        for one, other in pairs
    )


def _last_digit(number: str) -> float:
    """What one more in the last digit shown adds to a number."""
    digits, _, exponent = number.lower().partition("e")
    shown = len(digits.partition(".")[2])
    return float(f"1e{int(exponent or 0) - shown}")
