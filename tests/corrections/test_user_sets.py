"""Sets of a class of the program's, whose items stock forgets where it does not break the graph."""

from __future__ import annotations

import pytest
import torch

from tests.backends import EAGER_AND_AOT
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])

SETS = """
class Seen(set):
    def once(self, message):
        if message not in self:
            self.add(message)
            print(message)

    def add(self, item):
        self.last = item
        super().add(item)

    def update(self, *others):
        raise TypeError("one by one")

seen = Seen([1])

def f(x):
    {}
    return x * len(seen)
"""


@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("change", "mends"),
    [
        ("seen.once('a')", "defer@5"),
        ("seen.clear(); print(x.dim())", "defer@17"),
        ("seen.discard(1); x = x * 2 if x.sum() > 0 else x + 1", "where@17"),
        ("seen.add(2) if x.sum() > 0 else seen.discard(2)", "speculate@17"),
        ("seen.add(2); assert x.sum() > 0, f'{len(seen)}'", "speculate@17"),
    ],
)
def test_sets_of_a_class(change: str, mends: str, backend: str) -> None:
    check(
        SETS.format(change),
        [UP, DOWN, UP, UP],
        mends=mends,
        declines=None,
        breaks=None,
        backend=backend,
    )


@pytest.mark.slow
def test_sets_in_what_goes_on_after_a_break() -> None:
    """It is compiled for each length, and left to stock in the end; what was mended before is not told then."""
    source = SETS.format("seen.add(len(seen)); torch._dynamo.graph_break(); seen.once('a')")
    few, many = [UP, DOWN], [UP, DOWN] * 4
    check(source, few, mends="defer@5", declines="break-requested@17", breaks=2, orders=1)
    left = "break-requested@17 mending-does-not-pay@17"
    check(source, many, mends="", declines=left, breaks=8, orders=1)
