"""Which objects' texts are made by code that only reads: the closed lists, and the bytecode."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import Any

import pytest
import torch
from torch import nn

from graphmend_bc.runtime.objects import can_be_shown, only_reads

ran: list[str] = []
TEXT = "a constant of the module"


class Evil:
    def __repr__(self) -> str:
        ran.append("repr")
        return "evil"


class OwnProperty(property):
    def __get__(self, value: Any, owner: Any = None) -> int:
        ran.append("property")
        return 3


class Field:
    def __get__(self, value: Any, owner: Any = None) -> int:
        ran.append("field")
        return 3

    def __set__(self, value: Any, new: object) -> None:
        pass


evil = Evil()


class Base:
    shared = 7
    odd = OwnProperty()

    def __init__(self) -> None:
        self.number, self.text = 3, "text"
        self.rows, self.table = [1, 2], {"a": 1}
        self.inner, self.iterator = Evil(), iter([1])
        self.call = lambda: ran.append("call")
        self.none = None

    @property
    def half(self) -> float:
        return self.number / 2

    @property
    def counted(self) -> int:
        ran.append("counted")
        return 3

    @functools.cached_property
    def kept(self) -> int:
        return 3

    def name(self) -> str:
        return type(self).__name__

    def again(self) -> str:
        self.number += 1
        return ""


def object_with(body: str) -> Any:
    """An object whose `__repr__` has a body."""
    lines = "\n".join(f"        {line}" for line in body.split("; "))
    source = f"class Made(Base):\n    def __repr__(self):\n{lines}\n"
    space = dict(globals())
    exec(source, space)
    return space["Made"]()


@pytest.mark.parametrize(
    "body",
    [
        "return f'{self.number} {self.text!r} {self.rows} {self.shared:>4} {TEXT}'",
        "return 'Made(%s)' % self.number",
        "return 'Made({}, {})'.format(self.half, self.name())",
        "return ', '.join(f'{k}={v}' for k, v in self.table.items() if k.startswith('a'))",
        "return f'{self.__class__.__name__} at {hex(id(self))}'",
        "return str([len(self.rows), sum(self.rows), max(self.table.values())])",
        "return 'none' if self.none is None and self.number > 2 else self.text.upper()",
        "first = self.rows[0]; return str({'a': -first}) + str(first)",
    ],
)
def test_only_reads(body: str) -> None:
    assert can_be_shown(object_with(body))


@pytest.mark.parametrize(
    "body",
    [
        "self.number += 1; return ''",
        "self.rows.append(1); return ''",
        "self.table['b'] = 1; return ''",
        "rows = self.rows; rows += [1]; return ''",
        "del self.number; return ''",
        "global TEXT; TEXT = ''; return ''",
        "import sys; return ''",
        "return f'{self.inner}'",
        "return str(self.inner)",
        "return f'{self.inner == 3}'",
        "return f'{[v for v in self.iterator]}'",
        "return f'{self.call()}'",
        "return f'{self.odd}'",
        "return f'{self.counted}'",
        "return f'{self.kept}'",
        "return self.again()",
        "return f'{self.inner.number}'",
        "return f'{evil}'",
        "return f'{ran}'",
        "return super().__repr__()",
        "return (lambda: ran.append(1) or '')()",
        "self = self.inner; return f'{self}'",
        "return f'{[self.inner for self in self.rows]}'",
        "return f'{vars(self)}'",
        "return getattr(self, 'text')",
        "return print('shown') or ''",
        "yield ''",
    ],
)
def test_may_do_more(body: str) -> None:
    ran.clear()
    assert not only_reads(object_with(body))
    assert not ran  # looking runs nothing


def closure() -> object:
    hidden = Evil()

    class Made:
        def __repr__(self) -> str:
            return f"{hidden}"

    return Made()


class Keyword:
    def __repr__(self, *, value: object = evil) -> str:
        return f"{value}"


class Slotted:
    __slots__ = ("a",)

    def __getattr__(self, name: str) -> int:
        ran.append("getattr")
        return 3

    def __repr__(self) -> str:
        return f"{self.a}"


class Watching:
    def __getattribute__(self, name: str) -> Any:
        ran.append("getattribute")
        return object.__getattribute__(self, name)


class Formatting:
    def __format__(self, spec: str) -> str:
        ran.append("format")
        return ""


class Number:
    def __int__(self) -> int:
        ran.append("int")
        return 3


@dataclasses.dataclass
class WithField:
    value: int = Field()  # type: ignore[assignment]


@dataclasses.dataclass
class Data:
    value: object = 3


class Linear(nn.Linear):
    pass


class Overriding(nn.Linear):
    @property
    def in_features(self) -> int:  # type: ignore[override]
        ran.append("in_features")
        return 3

    @in_features.setter
    def in_features(self, value: int) -> None:
        pass


class Iterating(nn.ModuleList):
    def __iter__(self) -> Any:
        ran.append("iter")
        return super().__iter__()


@pytest.mark.parametrize(
    "make",
    [
        *(closure, Keyword, Slotted, Watching, Formatting, Number, WithField, Iterating),
        lambda: Data(Evil()),
        lambda: [1, {"a": (Evil(),)}],
        lambda: {Evil(): 1},
        lambda: nn.Sequential(Overriding(2, 2)),
        lambda: collections.Counter("abb"),
        lambda: functools.partial(print, Evil()),
    ],
)
def test_classes_that_may_do_more(make: Any) -> None:
    value = make()
    ran.clear()
    assert not only_reads(value)
    assert not ran


def holding_itself() -> Data:
    data = Data()
    data.value = [data]
    return data


@pytest.mark.parametrize(
    "make",
    [
        *(object, Data, holding_itself, collections.OrderedDict, nn.GELU),
        lambda: nn.Sequential(Linear(2, 2), nn.ModuleList([nn.BatchNorm1d(2)]), nn.Dropout()),
        lambda: [
            torch.ones(2),
            torch.float32,
            nn.Parameter(torch.ones(2)),
            Data(torch.device("cpu")),
        ],
        lambda: (ValueError("text", 3), KeyError("k"), range(3), print, nn, Data),
    ],
)
def test_classes_that_only_read(make: Any) -> None:
    assert can_be_shown(make())


def test_text_that_raises() -> None:
    assert not can_be_shown(object_with("return f'{1 // (self.number - 3)}'"))
