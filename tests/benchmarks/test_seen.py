"""What the benchmarks see of a program's state."""

from __future__ import annotations

import seen


def test_equal_tuples_may_be_one_or_two() -> None:
    """A program that asks which is rare, and compiled code makes them as Dynamo likes."""
    one = (1, 2)
    shared, apart = {"a": one, "b": one}, {"a": one, "b": (*one,)}
    assert dict(seen.state_of(shared, "s")) == dict(seen.state_of(apart, "s"))
    itself: list[object] = []
    itself.append((itself,))
    assert dict(seen.state_of(itself, "s")) == {
        "type of s": "list of 1",
        "type of s.0": "tuple of 1",
    }
