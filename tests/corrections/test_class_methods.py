"""Autograd functions whose forward and backward are class methods."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 0.25, -4.0]])

BOTH = """
class K(torch.autograd.Function):
    gain = 3.0

    @classmethod
    def forward(cls, ctx, x, bias=0.0):
        out = torch.clamp(x * cls.gain + bias, min=0)
        ctx.save_for_backward(out)
        return out

    @classmethod
    def backward(cls, ctx, grad):
        (out,) = ctx.saved_tensors
        return cls.masked(grad, out), None

    @staticmethod
    def masked(grad, out):
        return grad * (out > 0) * K.gain
"""
FORWARD = BOTH.replace("@classmethod\n    def backward(cls, ", "@staticmethod\n    def backward(")
BACKWARD = BOTH.replace("@classmethod\n    def forward(cls, ", "@staticmethod\n    def forward(")
APART = """
class K(torch.autograd.Function):
    @classmethod
    def forward(cls, x, bias):
        return cls.shifted(x, bias) ** 2

    @classmethod
    def shifted(cls, x, bias):
        return x + bias

    @classmethod
    def setup_context(cls, ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.bias = inputs[1]

    @classmethod
    def backward(cls, ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 * cls.shifted(x, ctx.bias), None
"""
DERIVED = BOTH + "\nclass Base(K): pass\nclass K(Base):\n    gain = 5.0\n"

SUPER = """
class General(torch.autograd.Function):
    power = 1.0

    @classmethod
    def forward(cls, ctx, x, bias):
        ctx.save_for_backward(x)
        return cls.scaled(x) * bias * cls.power

    @classmethod
    def backward(cls, ctx, grad):
        (x,) = ctx.saved_tensors
        return cls.scaled(grad) + x, None

    @classmethod
    def scaled(cls, x):
        raise NotImplementedError

class K(General):
    power = 2.0

    @classmethod
    def scaled(cls, x):
        return x * 4

    @classmethod
    def forward(cls, ctx, x, bias):
        return super().forward(ctx, x, bias=bias + super().power)
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "made",
    [
        BOTH,
        FORWARD.replace("cls.masked", "K.masked"),
        BACKWARD.replace("cls.gain", "K.gain"),
        APART,
        DERIVED.replace("* K.gain", "* 5.0"),
        SUPER,
    ],
)
def test_one_graph(made: str, backend: str) -> None:
    check(
        f"{made}\ndef f(x):\n    return K.apply(x, 1.0).sum(), x * 2",
        [X, -X],
        backend=backend,
        grad=True,
    )
    check(f"{made}\n@torch.no_grad()\ndef f(x):\n    return K.apply(x, 1.0).sum()", [X, -X])


VARIADIC = """
class Tree:
    def __call__(self, *parts):
        return sum(parts)

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tree, given, *parts):
        ctx.tree = tree
        ctx.save_for_backward(given, *parts)
        return ctx.tree(*parts) * given

    @staticmethod
    def backward(ctx, gradient):
        given, *parts = ctx.saved_tensors
        return None, gradient * ctx.tree(*parts), *(gradient * given for _ in parts)
"""


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_the_context_is_passed_however_many_arguments_there_are(count: int) -> None:
    parts = ", ".join(["x", "x * 2", "x.cos()"][:count])
    called = f"Product.apply(Tree(), x, {parts})"
    check(f"{VARIADIC}\ndef f(x):\n    return {called} + x", [X, -X], grad=count != 0)
    check(f"{VARIADIC}\n@torch.no_grad()\ndef f(x):\n    return {called} + x", [X, -X])


def test_branches_inside_are_mended() -> None:
    made = BOTH.replace("x * cls.gain", "(x * cls.gain if x.sum() > 0 else x - cls.gain)")
    source = f"{made}\ndef f(x):\n    return K.apply(x, 1.0).sum()"
    check(source, [X, -X], mends=None, declines=None, breaks=None, grad=True)


def _changed(made: str, change: str, given: str) -> str:
    """A function of a class that is another one from the second call on."""
    return f"""{made}
def change(number):
    if number > 1:
        {change}

def f(x):
    return {given}
"""


@pytest.mark.parametrize(
    "change",
    [
        "K.power = 7.0 * number",
        "General.power = 7.0 * number",
        "K.scaled = classmethod(lambda cls, x: x * number)",
        "General.forward = classmethod(lambda cls, ctx, x, bias: x * 9)",
        "K.__bases__ = (Other,)",
    ],
)
def test_changes_of_its_bases_count(change: str) -> None:
    other = """
class Other(General):
    @classmethod
    def forward(cls, ctx, x, bias):
        return x - 1
"""
    source = _changed(SUPER + other, change, "K.apply(x, 1.0).sum()")
    check(source, [X, -X, X], mends=None)
    if "bases" not in change:  # Dynamo does not notice those
        check(source, [X, -X, X], mends=None, grad=True)


@pytest.mark.parametrize(
    "change",
    [
        "K.gain = 7.0 * number",
        "K.forward = classmethod(lambda cls, ctx, x, bias: x * 9)",
        "K.masked = staticmethod(lambda grad, out: grad * number)",
        "K.backward = classmethod(lambda cls, ctx, grad: (grad * number, None))",
    ],
)
def test_changes_of_the_class_count(change: str) -> None:
    source = _changed(BOTH, change, "K.apply(x, 1.0).sum(), K.gain")
    check(source, [X, -X, X], mends=None, grad=True)
