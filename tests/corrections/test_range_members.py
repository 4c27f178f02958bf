"""Whether a number is in a range is a truth."""

from __future__ import annotations

from tests.surroundings import after_branch


def test_membership() -> None:
    asked = "6 in r, 5 in r, 6 not in r, 6.0 in r, (6 in r) is True, x.shape[0] in r"
    assert after_branch("", f"r = range(9, 0, -3)\nreturn x, {asked}").mends
