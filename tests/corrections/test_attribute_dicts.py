"""The dict of an object's attributes leaves a function that makes the object."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


@pytest.mark.parametrize(
    "result",
    ["vars(box)", "box.__dict__", "dict(vars(box))", "[vars(box), box.n]", "{**box.__dict__}"],
)
def test_it_holds_what_was_set(result: str) -> None:
    whole = result in ("vars(box)", "box.__dict__", "[vars(box), box.n]") or since(2, 13)
    check(
        f"""
        class Box:
            n = 1

            def __init__(self, x):
                self.first = x

        def f(x):
            box = Box(x * 2)
            if x.sum() > 0:
                box.n = 2
            else:
                box.m = x + 1
            return x * box.n, {result}
        """,
        [UP, DOWN, UP],
        mends="speculate@9" if whole else None,
        declines="" if whole else None,
        breaks=0 if whole else None,
    )


def test_what_is_written_to_it() -> None:
    check(
        """
        class Box:
            pass

        def f(x):
            print("here")
            box = Box()
            kept = vars(box)
            kept["a"] = x + 1
            box.b = 3
            del box.b
            box.c = kept
            return kept["a"] * 2, list(kept), kept is vars(box)
        """,
        [UP, DOWN],
        mends="defer@5",
        declines="" if since(2, 13) else "call-not-traced@12",  # `vars(box)`, where it is used
        breaks=0 if since(2, 13) else 1,
    )
