"""`min` and `max` of the program's own objects."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, check

X = torch.tensor([1.0, -2.0])
Y = torch.tensor([-3.0, 0.5])

CLASSES = """
from dataclasses import dataclass
from functools import total_ordering
import torch.distributions as D

log = []

@total_ordering
class Item:
    def __init__(self, rank, t=None):
        self.rank, self.t = rank, t

    def __eq__(self, other):
        return self.rank == other.rank

    def __le__(self, other):
        log.append((self.rank, other.rank))
        return self.rank <= other.rank

class Other(Item):
    pass

class Less:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value(self, other)

    def __gt__(self, other):
        return NotImplemented

@dataclass(order=True)
class Pair:
    one: int
    two: str

def fetched(*ranks):
    for rank in ranks:
        log.append(rank)
        yield Item(rank)

def f(x):
"""


def _of(body: str) -> str:
    return CLASSES + "".join(f"    {line}\n" for line in body.splitlines())


def test_the_divergence_of_two_distributions() -> None:
    body = """D.kl._KL_MEMOIZE.clear()
one, other = D.Normal(x, x.exp(), validate_args=False), D.Normal(x * 0, x * 0 + 1, validate_args=False)
return D.kl_divergence(one, other)"""
    check(_of(body), [X, Y], "polyfill@kl.py", grad=True, fullgraph=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "return x * min(Item(r) for r in (3, 1, 2)).rank",
        "return x * max([Item(r) for r in (3, 1, 2)]).rank, max(Item(5), Item(7), Item(6)).rank",
        "kept = [Item(1, x), Item(1, -x), Item(2, x)]\n"
        "return min(kept).t, max(kept).t, min(kept) is kept[0], max(kept) is kept[2]",
        "return x * min(fetched(2, 3, 1, 1)).rank",
        "found = fetched(2, 1)\nreturn x * max(found).rank, list(found)",
        "return x, min(Pair(2, 'a'), Pair(1, 'c'), Pair(1, 'b')), max([Pair(1, 'a'), Pair(1, 'b')])",
        "return x * min([Less(lambda a, b: []), Less(lambda a, b: [1])]).value(1, 2)[0]",
    ],
)
def test_it_is_the_one_that_python_finds(body: str) -> None:
    outcome = check(_of(body), [X, Y, X], None, declines=None, fullgraph=True)
    assert "polyfill@" in outcome.mends


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "return x * min([Item(4)]).rank",
        "return x, min([Item(1), Other(2), Item(0)]).rank",
        "return x, max(Other(1), Item(2), Other(3)).rank",
        "return min(Less(lambda a, b: a.t.sum() < b.t.sum()) for t in (x, x * 2) for x in (x,)), x",
        "one, other = Item(x), Item(x.flip(0))\none.rank, other.rank = x.sum(), x[0]\nreturn min(one, other).rank",
        "return min({Less(lambda a, b: False), Less(lambda a, b: False)}).value(1, 2), x",
        "return x, min([Less(lambda a, b: NotImplemented), Less(lambda a, b: NotImplemented)])",
        "return x, min([Less(lambda a, b: 1 / 0), Less(lambda a, b: 1 / 0)])",
        "try:\n    y = min([Less(lambda a, b: 1 / 0), Less(lambda a, b: 1 / 0)])\n"
        "except ZeroDivisionError:\n    y = 3\nreturn x * y",
        "return x, min([Item(2), Item(1)], key=lambda item: -item.rank).rank",
        "return x, min((Item(r) for r in ()), default=3)",
        "return x, min(Item(1), 2)",
        "return x * max(torch.tensor(2.0), x.sum()), min(fetched(2, 1)).rank",
        "it = iter([Item(2), Item(1), Item(3)])\nnext(it)\nreturn x * max(it).rank, len(list(it))",
    ],
)
def test_what_is_not_known_is_right(body: str) -> None:
    check(_of(body), [X, Y, X], None, declines=None, breaks=None)


@pytest.mark.slow
def test_the_comparison_may_change() -> None:
    change = Change("Item.__lt__ = lambda self, other: self.rank > other.rank")
    calls = [X, change, X, Y]
    check(_of("return x * min([Item(2), Item(1)]).rank"), calls, None, breaks=None, orders=1)
