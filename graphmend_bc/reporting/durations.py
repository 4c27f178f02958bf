"""Durations as people read them."""

from __future__ import annotations


def duration(nanoseconds: float) -> str:
    """A duration in seconds, milliseconds or microseconds, with three digits.

    Args:
        nanoseconds: the duration.

    Returns:
        The text.

    Example:
        >>> duration(2_140_000_000), duration(999_600_000), duration(999_600), duration(53_200)
        ('2.14 s', '1 s', '1 ms', '53.2 us')
    """
    unit, size = unit_of(nanoseconds)
    number = nanoseconds / size
    return f"{number:.3g} {unit}" if number < 999.5 else f"{number:.0f} {unit}"


def unit_of(nanoseconds: float) -> tuple[str, float]:
    """The unit in which a duration is told, with its nanoseconds.

    Args:
        nanoseconds: the duration.

    Example:
        >>> unit_of(53_200)
        ('us', 1000.0)
    """
    if nanoseconds >= 999_500_000:  # what is less rounds to 999 ms at most
        return "s", 1e9
    return ("ms", 1e6) if nanoseconds >= 999_500 else ("us", 1e3)
