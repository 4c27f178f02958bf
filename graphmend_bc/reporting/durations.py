"""Durations as people read them."""

from __future__ import annotations


def duration(nanoseconds: int) -> str:
    """A duration in seconds or milliseconds, with three digits.

    Args:
        nanoseconds: the duration.

    Returns:
        The text.

    Example:
        >>> duration(2_140_000_000), duration(999_600_000), duration(53_200)
        ('2.14 s', '1 s', '0.0532 ms')
    """
    if nanoseconds >= 999_500_000:  # what is less rounds to 999 ms at most
        seconds = nanoseconds / 1e9
        return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"
    return f"{nanoseconds / 1e6:.3g} ms"
