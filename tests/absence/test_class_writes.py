"""A class is asked for what the frame has set on it, or on a base of it, before a mended break."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees
from tests.releases import STOCK_IS_WRONG, since

X = torch.tensor([1.0, -2.0, 3.0])

CLASSES = """
class Meta(type):
    @property
    def twice(cls):
        return cls.rate * 2

class Base(metaclass=Meta):
    rate = 1

    def scaled(self, x):
        return x + self.rate

class Kind(Base):
    @classmethod
    def up(cls):
        cls.rate += 1
        return cls.rate

    @property
    def next_rate(self):
        return self.rate + 1

kind = Kind()
"""


def _of(*lines: str) -> str:
    body = "".join(f"    {line}\n" for line in lines)
    return f"{CLASSES}\ndef f(x):\n{body}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "write",
    [
        "Base.rate = Base.rate + 1",
        "Kind.rate = 5",
        "type(kind).rate += 1",
        "Kind.up()",
        "Base.rate = x.sum()",
        "Base.rate = property(lambda self: 6)",
    ],
)
@pytest.mark.parametrize(
    "asked",
    [
        "x * kind.rate",
        "x, getattr(kind, 'rate', 9), hasattr(kind, 'rate')",
        "kind.scaled(x), kind.next_rate",
        "x, Kind.rate if isinstance(Kind.rate, int) else None",
        "x, Kind.twice if isinstance(Kind.rate, int) else None",
        "x, kind.up() if isinstance(Kind.rate, int) else None",
    ],
)
def test_an_attribute_is_read(write: str, asked: str) -> None:
    is_counted = "+" in write or (write == "Kind.up()" and "up()" in asked)
    if is_counted and not since(2, 13):
        pytest.skip(STOCK_IS_WRONG)
    changes = [Change("Base.rate = 7"), X, Change("vars(kind)['rate'] = 3"), X, -X]
    agrees(_of(write, "print('here')", f"return {asked}"), [X, X, *changes], orders=1)


@pytest.mark.parametrize(
    ("write", "asked"),
    [
        ("Base.scaled = lambda self, x: x * 5", "kind.scaled(x)"),
        ("Kind.scaled = lambda self, x: x - super(Kind, self).rate", "kind.scaled(x)"),
        ("Kind.__call__ = lambda self, x: x - 1", "kind(x)"),
        ("Base.__len__ = lambda self: 3", "x * len(kind), bool(kind)"),
        ("Base.__eq__ = lambda self, other: True", "x, kind == 1, kind != 1"),
        ("Base.__getattr__ = lambda self, name: 8", "x * kind.missing"),
        ("Base.__add__ = lambda self, other: other * 2", "kind + x"),
        ("Base.__iter__ = lambda self: iter([1, 2])", "x, list(kind)"),
        ("Base.__getitem__ = lambda self, key: key * 2", "x * kind[3]"),
        ("Base.__init__ = lambda self: setattr(self, 'made', 4)", "x * Kind().made"),
    ],
)
def test_a_method_is_asked_for(write: str, asked: str) -> None:
    agrees(_of(write, "print('here')", f"return {asked}"), [X, -X, X])


def test_what_is_deleted_is_not_there() -> None:
    lines = ("del Base.rate", "print('here')", "found = hasattr(kind, 'rate')", "Base.rate = 2")
    agrees(_of(*lines, "return x * 2, found, kind.rate"), [X, -X])


@pytest.mark.parametrize("write", ["Kind.rate = 5", "Kind.rate = property(lambda self: 6)"])
def test_an_object_has_its_own(write: str) -> None:
    body = _of(write, "print('here')", "del Kind.rate", "kind.rate = 4", "return x * kind.rate")
    agrees(body, [X, Change("del kind.rate"), X, -X], orders=1)
    if "property" not in write:
        agrees(_of("kind.rate = 4", write, "print('here')", "return x * kind.rate"), [X, -X])


@pytest.mark.skipif(not since(2, 13), reason=STOCK_IS_WRONG)
def test_objects_that_count_themselves() -> None:
    source = """
class Counted:
    count = 0

    def __init__(self, x):
        type(self).count += 1
        self.x = x

def f(x):
    one = Counted(x)
    if x.sum() > 0:
        print("up")
    two = Counted(x * 2)
    return one.x + two.x, one.count, two.count, Counted.count
"""
    agrees(source, [X, -X, Change("Counted.count = 9"), X])
