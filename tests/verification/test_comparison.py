"""What is told of two values: each kind of difference, and nothing where there is none."""

from __future__ import annotations

import collections
import copy
import math
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
import torch

from graphmend_bc.dynamo.verification.comparison import MOST, Comparison, same_output


def told(want: Any, got: Any) -> list[str]:
    comparison = Comparison()
    comparison.compare("it", want, got)
    comparison.compare_memory()
    return [str(difference) for difference in comparison.found]


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


class OneSlot:
    __slots__ = "only"

    def __init__(self, only: int) -> None:
        self.only = only


class OwnState(Plain):
    def __getstate__(self) -> dict[str, Any]:
        return {"a": 1}


class Fresh(Mapping[str, Any]):
    """Makes its items anew whenever it is asked."""

    def __init__(self, size: int) -> None:
        self._names = tuple(map(str, range(size)))

    def __getitem__(self, name: str) -> list[str]:
        return [name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass
class Method:
    n: int

    def get(self) -> int:
        return self.n


def made(constant: int) -> Callable[[], int]:
    return lambda: constant


ones, t = torch.ones(3), torch.tensor
nan, inf = math.nan, math.inf

SAME: dict[str, tuple[Any, Any]] = {
    "rounded numbers": (1.0, 1.0 + 1e-6),
    "numbers that are no numbers": (nan, -nan),
    "infinities": (inf, float("inf")),
    "complex numbers": (1 + 1j, 1 + 1.0000001j),
    "complex numbers that are no numbers": (complex(nan, 1), complex(nan, 1)),
    "tensors": (ones, ones + 1e-7),
    "tensors that are no numbers": (t([nan, 1.0]), t([nan, 1.0])),
    "strides of one element": (torch.ones(3, 1), torch.ones(1, 3).t()),
    "strides of no element": (torch.empty(2, 0), torch.empty(0, 2).t()),
    "sparse tensors": (ones.to_sparse(), ones.to_sparse()),
    "arrays": (numpy.ones(3), numpy.ones(3) + 1e-7),
    "arrays of texts": (numpy.array(["a"]), numpy.array(["a"])),
    "scalars of NumPy": (numpy.float32(1), numpy.float32(1 + 1e-7)),
    "sets": ({1, "a"}, {"a", 1}),
    "copied objects in sets": ({Plain(a=1)}, {Plain(a=1)}),
    "copied objects as keys": ({Plain(): 1}, {Plain(): 1}),
    "closures of one code": (made(1), made(2)),
    "methods": (Method(1).get, Method(1).get),
    "slots": (Slotted(a=1), Slotted(a=1)),
    "state of its own": (OwnState(a=1, b=2), OwnState(a=1)),
    "exceptions": (ValueError("a", ones), ValueError("a", ones.clone())),
    "queues": (collections.deque([1.0]), collections.deque([1.0])),
    "items that are made anew": ([Fresh(3)] * 9, [Fresh(3)] * 9),
    "items of several that are made anew": (
        [Fresh(n) for n in range(50)],
        [Fresh(n) for n in range(50)],
    ),
}

OTHER: dict[str, tuple[Any, Any, str]] = {
    "types": (1, 1.0, "it: int in eager, float mended"),
    "numbers": (1.0, 1.001, "it: 1.0 in eager, 1.001 mended"),
    "an infinity is no number": (inf, 1.0, "it: inf in eager, 1.0 mended"),
    "a number is no infinity": (1.0, inf, "it: 1.0 in eager, inf mended"),
    "signs of infinities": (inf, -inf, "it: inf in eager, -inf mended"),
    "a number that is none": (nan, 1.0, "it: nan in eager, 1.0 mended"),
    "a number where there is none": (1.0, nan, "it: 1.0 in eager, nan mended"),
    "complex numbers": (1j, 2j, "it: 1j in eager, 2j mended"),
    "infinite complex numbers": (complex(inf, 0), complex(0, inf), "it: (inf+0j) in eager, infj"),
    "texts": ("a" * 130, "b", f"it: '{'a' * 119}... in eager, 'b' mended"),
    "dtypes of arrays": (numpy.ones(1), numpy.ones(1, numpy.float32), "it: array([1.]) in eager"),
    "shapes of arrays": (numpy.ones(1), numpy.ones(2), "it: array([1.]) in eager, array([1., 1.])"),
    "numbers of arrays": (numpy.ones(1), numpy.zeros(1), "it: array([1.]) in eager, array([0.])"),
    "integers of arrays": (
        numpy.array([10**9]),
        numpy.array([10**9 + 1]),
        "it: array([1000000000]",
    ),
    "functions": (len, max, "it: <built-in function len> in eager, <built-in function max> mended"),
    "classes": (int, bool, "it: <class 'int'> in eager, <class 'bool'> mended"),
    "code": (made, told, "it: <function made"),
    "objects of methods": (Method(1).get, Method(2).get, "it.__self__.n: 1 in eager, 2 mended"),
    "lengths": ([1], [1, 2], "it: 1 item in eager, 2 mended"),
    "items": ([1, [2]], [1, [3]], "it[1][0]: 2 in eager, 3 mended"),
    "keys": ({"a": 1}, {"b": 1}, "it: ['a'] in eager, ['b'] mended"),
    "orders of keys": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "it: ['a', 'b'] in eager, ['b', 'a']"),
    "values": ({"a": 1}, {"a": 2}, "it['a']: 1 in eager, 2 mended"),
    "sets": ({1}, {2}, "it: {1} in eager, {2} mended"),
    "sizes of sets": (frozenset(), frozenset([1]), "it: frozenset() in eager, frozenset({1})"),
    "arguments": (ValueError(1), ValueError(2), "it.args[0]: 1 in eager, 2 mended"),
    "attributes": (Plain(a=1), Plain(a=2), "it.a: 1 in eager, 2 mended"),
    "names of attributes": (Plain(a=1), Plain(b=1), "it: only one of eager and mended has a, b"),
    "slots": (Slotted(a=1, b=1), Slotted(a=1, b=2), "it.b: 1 in eager, 2 mended"),
    "names of slots": (Slotted(a=1), Slotted(b=1), "it: only one of eager and mended has a, b"),
    "the only slot": (OneSlot(1), OneSlot(2), "it.only: 1 in eager, 2 mended"),
    "dtypes": (ones, ones.double(), "it: dtype is torch.float32 in eager, torch.float64 mended"),
    "layouts": (ones, ones.to_sparse(), "it: layout is torch.strided in eager, torch.sparse_coo"),
    "shapes": (ones, ones[:2], "it: shape is torch.Size([3]) in eager, torch.Size([2]) mended"),
    "gradients": (ones, torch.ones(3, requires_grad=True), "it: requires_grad is False in eager"),
    "strides": (torch.ones(2, 2), torch.ones(2, 2).t(), "it: strides are (2, 1) in eager, (1, 2)"),
    "some values": (ones, t([1.0, nan, 3.0]), "it: 2 of 3 values differ, by at most nan"),
    "one value": (t(1.0), t(2.0), "it: 1 of 1 value differs, by at most 1"),
    "complex values": (t([1j]), t([2j]), "it: 1 of 1 value differs, by at most 1"),
    "sparse values": (ones.to_sparse(), (ones * 2).to_sparse(), "it: 3 of 3 values differ, by at"),
}


@pytest.mark.parametrize(("want", "got"), SAME.values(), ids=SAME.keys())
def test_nothing_is_told_of_what_is_the_same(want: Any, got: Any) -> None:
    assert told(want, got) == told(got, want) == []


@pytest.mark.parametrize(("want", "got", "text"), OTHER.values(), ids=OTHER.keys())
def test_a_difference_is_told(want: Any, got: Any, text: str) -> None:
    (first, *_) = told(want, got)
    assert first.startswith(text), first
    assert told(got, want)
    assert not told(want, want)
    assert not told(got, got)


def _list_of_itself() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


class Shared:
    """Instances of it have their attributes in a dict they are given."""

    def __init__(self, kept: dict[str, Any]) -> None:
        self.__dict__ = kept


def test_which_object_it_is() -> None:
    one, other = [1], [1]
    assert told([one, one], [other, other]) == []
    assert told([one, one], [[1], [1]]) == ["it[1]: it is another object than in eager"]
    assert told([[1], [1]], [one, one]) == ["it[1]: it is another object than in eager"]
    assert told(_list_of_itself(), _list_of_itself()) == []
    pair = (1, [2])
    assert told([pair, pair], [(1, [2]), (1, [2])]) == [
        "it[1][1]: it is another object than in eager"
    ]
    method, fresh = Method(1), Method(1)
    assert told([method.get, method.get], [fresh.get, fresh.get]) == []
    (text, _) = told([method.get, method.get], [fresh.get, Method(1).get])
    assert text == "it[1].__self__: it is another object than in eager"


def test_attributes_in_one_dict() -> None:
    def two(*kept: dict[str, Any]) -> list[Shared]:
        return [Shared(each) for each in kept]

    one, other = {"a": 1}, {"a": 1}
    assert told(two(one, one), two(other, other)) == []
    expected = ["it[1].__dict__: it is another object than in eager"]
    assert told(two(one, one), two(other, dict(other))) == expected


def test_memory() -> None:
    def parts(shares: bool) -> list[torch.Tensor]:
        x = torch.ones(4)
        return [x, x[:2] if shares else x[:2].clone(), torch.ones(0), torch.ones(2).to_sparse()]

    assert told(parts(True), parts(True)) == told(parts(False), parts(False)) == []
    expected = ["memory: 1 tensor shares memory with others than in eager"]
    assert told(parts(True), parts(False)) == told(parts(False), parts(True)) == expected
    (x, y), (z, w) = torch.ones(2, 4), torch.ones(2, 4)
    expected = ["memory: 2 tensors share memory with others than in eager"]
    assert told([x.clone(), x, x[1:], y[:1]], [z.clone(), w, z[1:] * 1, w[:1] * 1]) == expected


def test_gradients_of_leaves() -> None:
    def leaf(gradient: float | None) -> torch.Tensor:
        x = torch.ones(2, requires_grad=True)
        x.grad = None if gradient is None else torch.full((2,), gradient)
        return x

    assert told(leaf(1.0), leaf(1.0)) == told(leaf(None), leaf(None)) == []
    assert told(leaf(1.0), leaf(None)) == ["it.grad: Tensor in eager, NoneType mended"]
    assert told(leaf(1.0), leaf(2.0)) == ["it.grad: 2 of 2 values differ, by at most 1"]
    result = leaf(1.0) * 1  # asking a result for its gradient would warn
    assert told(result, leaf(1.0) * 1) == []


def test_attributes_of_tensors() -> None:
    def tensor(**attributes: Any) -> torch.Tensor:
        x = torch.ones(2)
        vars(x).update(attributes)
        return x

    assert told(tensor(a=1, _dynamo_x=1), tensor(a=1)) == []
    assert told(tensor(a=1), tensor(a=2)) == ["it.a: 1 in eager, 2 mended"]
    assert told(tensor(a=1), tensor()) == ["it: only one of eager and mended has a"]


def test_so_many_differences_are_told() -> None:
    assert len(told([*range(99)], [*range(1, 100)])) == MOST


def test_a_module_is_itself() -> None:
    assert told([math, copy], [math, copy]) == []
    twin = types.ModuleType("math")
    assert told(math, twin) == [f"it: {math!r} in eager, {twin!r} mended"]


def test_outputs_are_the_same_but_for_rounding() -> None:
    assert same_output(
        "x tensor(1., grad_fn=<MulBackward0>)", "x tensor(1., grad_fn=<CloneBackward0>)"
    )
    assert same_output("loss 0.12345671", "loss 0.12345670")
    assert not same_output("loss 0.1", "loss 0.3")
    assert not same_output("loss 0.1", "losses 0.1")
