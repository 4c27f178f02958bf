"""Counts as people read them."""

from __future__ import annotations


def many(count: int, what: str, plural: str = "") -> str:
    """A number of things.

    Args:
        count: how many there are.
        what: one of them, in the singular.
        plural: several of them, if that is not the singular with an s.

    Example:
        >>> many(1, "graph"), many(0, "graph"), many(2, "copy", "copies")
        ('1 graph', '0 graphs', '2 copies')
    """
    return f"{count} {what if count == 1 else plural or what + 's'}"


def verb(count: int, singular: str, plural: str) -> str:
    """The verb of a number of things.

    Args:
        count: how many there are.
        singular: its form for one of them.
        plural: its form for several, or none.

    Example:
        >>> verb(1, "is", "are"), verb(0, "is", "are")
        ('is', 'are')
    """
    return singular if count == 1 else plural
