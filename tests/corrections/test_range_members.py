"""Whether a number is in a range is a truth."""

from __future__ import annotations

from tests.oracle import agrees
from tests.surroundings import X


def test_membership() -> None:
    source = (
        "def f(x):\n    if x.sum() > 0: x = x * 2\n    r = range(9, 0, -3)\n"
        "    return x, 6 in r, 5 in r, 6 not in r, 6.0 in r, (6 in r) is True, x.shape[0] in r\n"
    )
    assert agrees(source, [X, -X, X], orders=1).mends
