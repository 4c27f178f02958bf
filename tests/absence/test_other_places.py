"""Rarer places in which a trace learns from what is not there, or from where something was found."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees
from tests.surroundings import changing

MENDED = "print('sum', x.sum())"

OTHER = """
import types, sys
other = types.ModuleType("a_module_of_tests")
sys.modules[other.__name__] = other
exec("def count(items): return len(items)", vars(other))
"""
CLASSES = """
class A:
    w = 1

    def get(self):
        return 2

    @classmethod
    def made(cls):
        return 3

class B(A):
    def get(self):
        return super().get() + 1

    @classmethod
    def made(cls):
        return super().made() + 1

class Own(B):
    w = 7

class Key:
    pass

key, o, b = Key(), A(), B()
table, plain = {key: 1, 2: 4}, {"b": 3}
"""
NET = """
class Net(nn.Module):
    def forward(self, x):
        return x * 2

net = Net()
"""

CHANGING = {
    "a builtin of another module is hidden": (
        OTHER,
        "w = other.count([1, 2])",
        ["other.len = lambda items: 9", "del other.len"],
    ),
    "a key that is an object": (
        CLASSES,
        "try: w = table[key] + table.get(b, 2)\nexcept KeyError: w = 6",
        ["table[b] = 5", "del table[key]", "table[key] = 8"],
    ),
    "an object beside other keys": (
        CLASSES,
        "w = table[2] + (key in table) + (o in table)",
        ["table[key] = 5", "del table[key]"],
    ),
    "an item of a dict of the frame's": (
        CLASSES,
        "d = {'a': plain['b']}\nw = d['a']\ntry: d['b']\nexcept KeyError: w += 1",
        ["plain['b'] = 9"],
    ),
    "an attribute that is deleted in vain": (
        CLASSES,
        "w = 1\nnew = A()\ntry: del new.v\nexcept AttributeError: w = 2",
        ["A.__delattr__ = lambda self, name: None", "del A.__delattr__"],
    ),
    "hasattr of torch": ("", "w = 1 + hasattr(torch, 'no_such_name')", []),
    "hasattr of what is computed": ("", "w = 1 + hasattr(x * 2, 'no_such_name')", []),
    "super of an object": (
        CLASSES,
        "w = b.get()",
        ["A.get = lambda self: 5", "B.get = lambda self: 6"],
    ),
    "super of a class": (
        CLASSES,
        "w = B.made()",
        ["A.made = classmethod(lambda cls: 5)", "B.made = classmethod(lambda cls: 6)"],
    ),
    "a nearer class has what was set": (
        CLASSES,
        "A.w = 4\nw = Own().w + B().w\nA.w = 1",
        ["Own.w = 9", "del Own.w"],
    ),
    "a module's own forward": (
        NET,
        "w = net(x).sum()",
        [
            "net.forward = lambda x: x * 3",
            "net.forward = lambda x: x * 4",
            "del net.forward",
            "Net.forward = lambda self, x: x * 5",
        ],
    ),
    "a module with hooks": (
        NET + "handle = net.register_forward_hook(lambda module, args, out: out + 1)",
        "w = net(x).sum()",
        ["handle.remove()", "net.register_forward_pre_hook(lambda module, args: (args[0] * 7,))"],
    ),
    "an abstract class among others": (
        "import abc\nclass Base(abc.ABC): pass\nclass Thing: pass\nthing = Thing()",
        "w = 1 + isinstance(thing, (int, Base | str)) + isinstance(x, Base)",
        ["Base.register(Thing)", "Base.register(torch.Tensor)"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("before", "asked", "steps"), CHANGING.values(), ids=CHANGING.keys())
def test_what_comes_and_goes(before: str, asked: str, steps: list[str]) -> None:
    changing(before, f"{asked}\n{MENDED}\nreturn w * x", *steps, mends=None)


OPERATORS = """
class Op:
    def __init__(self, t):
        self.t = t

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return "torch", function.__name__

class Unknowing(Op):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = None

def f(x):
    {body}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "return Unknowing(x) != x, Unknowing(x) == x",
        "return Op(x) - x",
    ],
)
def test_operators_that_do_not_know_a_tensor(body: str) -> None:
    X = torch.tensor([1.0, -2.0])
    agrees(OPERATORS.format(body=body), [X, -X, Change("Op.t = 3"), X])
