"""Lists that are sorted by tensors: `items.sort(key=...)`, `sorted(items, key=...)`."""

from __future__ import annotations

from typing import TypeVar

import pytest
import torch

from tests.oracle import check

T = TypeVar("T")


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values)


CALLS = [rows(1.0, 3.0, 2.0), rows(3.0, 2.0, 1.0), rows(1.0, 1.0, 1.0), rows(2.0, 1.0, 3.0)]


def _unless_it_flips(wanted: T) -> dict[str, T | None]:
    """With more calls, each in another order, it is given up."""
    return {"forward": wanted, "twice": None, "both ways": None}


@pytest.mark.parametrize("reverse", [False, True])
def test_list_sorted_by_a_tensor(reverse: bool) -> None:
    check(
        f"""
        def f(x):
            items = [("a", x[0]), ("b", x[1]), ("c", x[2])]
            items.sort(key=lambda item: item[1] * 2, reverse={reverse})
            return items
        """,
        calls=CALLS,
        mends=_unless_it_flips("speculate@3"),
        declines=_unless_it_flips(""),
        breaks=_unless_it_flips(0),
    )


def test_tensors_sorted_by_themselves() -> None:
    check(
        """
        def f(x):
            items = [x[0], x[1], x[2]]
            items.sort()
            return items[0] * 2, items[2]
        """,
        calls=[*CALLS, rows(float("nan"), 1.0, 0.0)],
        mends=_unless_it_flips("speculate@3"),
        declines=_unless_it_flips(""),
        breaks=_unless_it_flips(0),
    )


def test_a_list_of_the_programs_stays_the_same_list() -> None:
    check(
        """
        def f(x, items):
            items.sort(key=lambda i: x[i])
            return x[items[0]]
        """,
        calls=[(x, [0, 1, 2]) for x in CALLS],
        mends="speculate@2",
    )


def test_keys_of_several_elements_raise() -> None:
    check(
        """
        def f(x):
            items = [x, x + 1]
            print(len(items))
            items.sort()
            return items
        """,
        calls=CALLS[:2],
        mends="defer@3",
        declines="predicate-not-scalar@4",
        breaks=1,
    )


def test_sorted() -> None:
    check(
        """
        def f(x):
            return sorted((0, 1, 2), key=lambda i: x[i]), sorted({"a": x[0], "b": x[1]}), x + 1
        """,
        calls=CALLS,
        mends=_unless_it_flips("speculate@2"),
        declines=_unless_it_flips(""),
        breaks=_unless_it_flips(0),
    )
