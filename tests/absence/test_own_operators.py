"""Operators between the program's own objects and tensors, where the class also overrides torch's functions."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, check

X = torch.tensor([1.0, -2.0])
Y = torch.tensor([-3.0, 0.5])

CLASSES = """
import operator

class Op:
    def __init__(self, t):
        self.t = t

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return "torch", *(getattr(arg, "t", arg) for arg in args)

class Own(Op):
    def __add__(self, other):
        return "add", self.t + other

    def __matmul__(self, other):
        return NotImplemented if other.dim() > 1 else ("matmul", self.t @ other)

    def __isub__(self, other):
        self.t = self.t - other
        return self

    def __lt__(self, other):
        return self.t < other

    def __eq__(self, other):
        return "equal", self.t == other

    __hash__ = None

    def __and__(self, other):
        raise ValueError(f"no and of {tuple(other.shape)}")

class Special(Own):
    def __add__(self, other):
        return "special", super().__add__(other)
"""


def _of(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{CLASSES}\ndef f(x):\n    a = Own(x * 2)\n{lines}"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_class_on_the_left_is_asked_first(fullgraph: bool) -> None:
    check(_of("return a @ x, a + x"), [X, Y], grad=True, fullgraph=fullgraph)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "return a < x, a == x, a != a.t",
        "a -= x\nreturn a.t",
        "b = a\nb -= x\nb -= x\nreturn a.t, a is b",
        "a += x\nreturn a",
        "return Special(x) + x",
        "return operator.add(a, x), operator.matmul(a, x)",
        "return [each + x for each in (a, Special(x))]",
        "return (a + x[0])[1].sum(), a + 2",
        "try:\n    return a & x\nexcept ValueError as error:\n    return str(error), x * 2",
        "return (a & x), x",
        "with torch.device('cpu'):\n    return a + x",
        "with torch.no_grad():\n    return (a + x)[1] * x",
    ],
)
def test_what_it_says_holds(body: str) -> None:
    # An exception that leaves the function is a break in stock Dynamo, too.
    check(_of(body), [X, Y, X], None, declines=None, breaks=None, grad=True)


@pytest.mark.slow
def test_a_class_that_does_not_know_the_tensor_leaves_it_to_the_tensor() -> None:
    class_of_left = "return (a @ x[None])[0], (Op(x) + x)[0]"
    check(_of(class_of_left), [X, Y], None, declines=None, breaks=None)


@pytest.mark.slow
def test_the_method_of_the_class_may_change() -> None:
    calls = [X, Change("Own.__add__ = lambda self, other: other * 5"), X, Y]
    check(_of("return a + x"), calls, orders=1)


@pytest.mark.slow
def test_an_attribute_of_the_object_is_not_asked() -> None:
    body = "a.__add__ = lambda other: other * 7\nreturn a + x"
    check(_of(body), [X, Y], None, declines=None, breaks=None)


@pytest.mark.slow
def test_a_method_that_is_no_function_is_not_traced() -> None:
    body = "Own.__or__ = held\nreturn a | x"
    source = _of(body).replace("def f(x):", "held = operator.attrgetter('shape')\n\ndef f(x):")
    check(source, [X, Y], None, declines=None, breaks=None)
