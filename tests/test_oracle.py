"""The oracle sees every difference a user would see."""

from __future__ import annotations

import re

import pytest
import torch

from tests.oracle import _assert_same, _run

PROGRAM = """
import warnings
import numpy

items, seen, counts = [], set(), {{}}

class Box:
    name = "a"

box = Box()

def f(x):
    global count
    {}
"""


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("error", "raise ValueError(1)", "raise ValueError('1')"),
        ("error", "raise ValueError(1)", "raise ValueError(1) from KeyError(1)"),
        ("error", "raise ValueError(1)", "raise ValueError(1) from None"),
        ("value", "return x * 2", "return x.double() * 2"),
        ("value", "return (x > 0).any()", "return True"),
        ("value", "return 1", "return True"),
        ("value", "return 0.0", "return -0.0"),
        ("value", "return [x]", "return (x,)"),
        ("value", "return {1: 'a', 2: 'b'}", "return {2: 'b', 1: 'a'}"),
        ("value", "return {1, 2}", "return {1, 3}"),
        ("value", "return numpy.ones(2)", "return numpy.ones(2, 'float32')"),
        ("value", "return numpy.float32(1)", "return numpy.float32(2)"),
        ("value", "return x.new_ones(2, 2)", "return x.new_ones(2, 2).t()"),
        ("shared", "return x", "return x.clone()"),
        ("inputs", "x.detach().add_(1)", "x.detach().add_(2)"),
        ("gradients", "(x * 2).sum().backward()", "(x * 0).sum().backward()"),
        ("gradients", "(x * 0).sum().backward()", "pass"),
        ("state", "items.append(1)", "items.append(True)"),
        ("state", "counts.update(a=1, b=2)", "counts.update(b=2, a=1)"),
        ("state", "seen.add(1)", "seen.add(2)"),
        ("state", "box.name = 'b'", "box.name = 'c'"),
        ("state", "Box.name = 'b'", "box.name = 'b'"),
        ("state", "f.name = 'b'", "pass"),
        ("state", "count = 1", "count = 2"),
        ("stdout", "print(1)", "print(2)"),
        ("records", "logging.getLogger('program').error('a')", "pass"),
        ("warnings", "warnings.warn('a')", "warnings.warn('a', FutureWarning)"),
        ("random", "torch.rand(1)", "pass"),
        ("random", "numpy.random.rand()", "pass"),
    ],
)
def test_difference(field: str, one: str, other: str) -> None:
    calls = [(torch.ones(2, requires_grad=True),)]
    first, second, third = (
        _run(PROGRAM.format(body), calls, False, lambda f: f) for body in (one, one, other)
    )
    _assert_same(first, second, "the same program")
    with pytest.raises(AssertionError, match=re.escape(f"other: {field} differs")):
        _assert_same(first, third, "other")


def test_change_is_called_before_each_call() -> None:
    source = """
    numbers = []

    def f(x):
        return list(numbers)

    def change(number):
        numbers.append(number)
    """
    first, second = _run(source, [(torch.ones(1),)] * 2, False, lambda f: f)
    assert first.value == ("list", [("int", "0")])
    assert second.value == ("list", [("int", "0"), ("int", "1")])
