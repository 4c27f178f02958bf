"""Classes whose metaclass says what calling them does."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees, check
from tests.releases import STOCK_IS_WRONG, since

X = torch.tensor([1.0, -2.0, 3.0])

MARKED = """
class Marked(type):
    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.mark = 2
        return made

class Held(metaclass=Marked):
    def __init__(self, x):
        self.x = x
"""

SINGLETON = """
class Singleton(type):
    _instances = {}

    def __call__(cls, *args, **kwargs):
        if cls not in cls._instances:
            cls._instances[cls] = super(Singleton, cls).__call__(*args, **kwargs)
        return cls._instances[cls]

class Settings(metaclass=Singleton):
    def __init__(self, factor=2):
        self.factor = factor
"""


@pytest.mark.parametrize(
    "body",
    [
        "held = Held(x)\n    return held.x * held.mark",
        "return vars(Held(x)), x + 1",
        "return [made.x * made.mark for made in map(Held, [x, x * 2])]",
        "return type(KEPT)(x).mark * x",
        "made = Held(x) if x.sum() > 0 else Held(-x)\n    return made.x * made.mark",
    ],
)
def test_the_metaclass_is_called(body: str) -> None:
    source = f"{MARKED}\nKEPT = Held(torch.ones(3))\n\ndef f(x):\n    {body}"
    outcome = agrees(source, [X, -X])
    assert not outcome.breaks


def test_metaclasses_in_a_row_and_abstract_ones() -> None:
    source = f"""
import abc
{MARKED}
class Twice(Marked, abc.ABCMeta):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.mark += 1
        return made

class Plain(Twice):
    pass

class Other(Held, metaclass=Plain):
    @classmethod
    def make(cls, x):
        return cls(x * 3)

def f(x):
    made = Other.make(x)
    return made.x * made.mark
"""
    check(source, [X, -X])


def test_what_a_metaclass_gives_need_not_be_an_object_of_the_class() -> None:
    source = """
        class Product(type):
            def __call__(cls, x):
                print(cls.__name__)
                return x * 3

        class Triple(metaclass=Product):
            pass

        def f(x):
            return Triple(x) + 1
        """
    check(source, [X, -X], "defer@3")


@pytest.mark.parametrize(
    "body",
    [
        "return x * Settings().factor",
        "return x * Settings(5).factor, Settings() is Settings(7)",
        "Settings().factor += 1\n    return x * Settings().factor",
        "return x + len(Settings._instances), Settings().factor",
    ],
)
def test_singletons(body: str) -> None:
    source = f"{SINGLETON}\ndef f(x):\n    {body}"
    steps = ["Settings().factor = 7", "Singleton._instances.clear()"]
    steps += ["Singleton._instances.clear(); Settings(11)", "Singleton._instances = {}"]
    calls: list[object] = [X, X]
    for step in steps:
        calls += [Change(step), X, X]
    assert not agrees(source, calls, orders=1).breaks


def test_another_method_later_is_noticed() -> None:
    other = """
def other(cls, *args):
    made = cls.__new__(cls)
    made.x, made.mark = args[0], 9
    return made
"""
    source = f"{MARKED}{other}\ndef f(x):\n    made = Held(x)\n    return made.x * made.mark"
    calls = [X, X, Change("Marked.__call__ = other"), X, X]
    check(source, calls, orders=1)


@pytest.mark.skipif(not since(2, 13), reason="torch 2.11 does not guard on them")
@pytest.mark.parametrize("change", ["Kinds.factor = 4", "Kind.factor = 5", "Kinds.factor = [x]"])
def test_attributes_of_the_metaclass(change: str) -> None:
    source = """
        class Kinds(type):
            factor = 3

        class Kind(metaclass=Kinds):
            pass

        def f(x):
            return x * Kind.factor if isinstance(Kind.factor, int) else x
        """
    check(source, [X, X, Change(change.replace("[x]", "[1]")), X, X], orders=1)


def test_an_attribute_that_the_function_sets_first() -> None:
    source = f"""{SINGLETON}
def f(x):
    Singleton._instances = {{}}
    made = Settings(4)
    return x * made.factor, len(Singleton._instances), len(Settings._instances)
"""
    agrees(source, [X, -X])


@pytest.mark.parametrize(
    "before",
    [
        "Kinds.factor = 7",
        "Kinds.own = 7",
        "Base.own = 7",
        "Base.factor = 7",
        "Base.factor = Kinds.own = x.shape[0]",
        "Kinds.factor = x + 1",
        "Kinds.factor = 7; del Kinds.factor",
        "Kinds.own = 7; del Kinds.own; Kinds.own = 8",
        "Kind.factor = 7",
    ],
)
def test_attributes_that_the_function_sets(before: str) -> None:
    """Also those of a base, which the metaclass may hide."""
    source = f"""
        class Base(type):
            factor = 1
            own = 2

        class Kinds(Base):
            own = 3

        class Kind(metaclass=Kinds):
            pass

        def f(x):
            {before}
            return x * Kind.factor, Kind.own, getattr(Kind, "factor", 9)
        """
    agrees(source, [X, -X, X])


def test_a_method_that_is_no_function_is_left_to_python() -> None:
    source = """
        class Doubled(type):
            __call__ = staticmethod(lambda x: x * 2)

        class Kind(metaclass=Doubled):
            pass

        def f(x):
            return Kind(x)
        """
    check(source, [X, -X], "", "call-not-traced@8", breaks=1)


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2", "E(2).value"),
        ("import typing\nclass T(typing.TypedDict):\n    a: int", "T(a=3)['a']"),
    ],
)
def test_what_dynamo_knows_stays(before: str, body: str) -> None:
    check(f"{before}\ndef f(x):\n    return x * {body}", [X, -X])


@pytest.mark.parametrize("before", ["print('here')", "x = x * 2 if x.sum() > 0 else x - 1"])
@pytest.mark.parametrize(
    "asked",
    [
        "getattr(kind, 'mark', 1)",
        "hasattr(kind, 'mark') + 1",
        "Kind.mark",
        "getattr(Kind(), 'mark', Kind.mark + 1)",
        "read(kind)",
    ],
)
def test_a_metaclass_has_no_attributes_for_objects(before: str, asked: str) -> None:
    source = f"""
class Meta(type):
    def __getattr__(cls, name):
        if name == "mark":
            return 6
        raise AttributeError(name)

class Kind(metaclass=Meta):
    pass

kind = Kind()

def read(one):
    try:
        return one.mark
    except AttributeError:
        return 3

def f(x):
    {before}
    return x * {asked}
"""
    if asked == "Kind.mark" and not since(2, 13):
        pytest.skip(STOCK_IS_WRONG)
    own = Change("Kind.__getattr__ = lambda self, name: 7"), Change("del Kind.__getattr__")
    agrees(source, [X, -X, own[0], X, own[1], X], orders=1)
