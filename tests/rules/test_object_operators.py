"""Operators between objects of the program's, whose classes say what they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.oracle import Change, check
from tests.releases import since
from tests.surroundings import changing

X = torch.tensor([[1.0, -2.0], [3.0, 0.5]])

CLASSES = """
seen = []

class Op:
    def __init__(self, t):
        self.held = t

    def __matmul__(self, other):
        seen.append(("own", type(self).__name__))
        if isinstance(other, str):
            return NotImplemented
        return Op(self.held @ getattr(other, "held", other))

class Reflects(Op):
    def __rmatmul__(self, other):
        seen.append(("reflected", type(self).__name__))
        return Op(self.held - 1)

class SameReflected(Reflects):
    def __matmul__(self, other):
        seen.append(("special", type(self).__name__))
        return Op(self.held + 1)

class Only:
    def __init__(self, t):
        self.held = t

    def __rmatmul__(self, other):
        seen.append(("only", type(other).__name__))
        return Op(self.held * 3)

class Places(Op):
    def __imatmul__(self, other):
        if isinstance(other, Only):
            return NotImplemented
        self.held = self.held @ other.held
        return self

class Plain:
    pass
"""


def _wanted(mends: str) -> dict[str, Any]:
    """What is wanted of a program that Dynamo traces itself, as far as it can, since torch 2.14."""
    if since(2, 14):
        return {"mends": None, "declines": None, "breaks": None}
    return {"mends": mends}


def _of(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{CLASSES}\ndef f(x):\n{lines}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "return (Op(x) @ Op(x + 1)).held",
        "return (Op(x) @ x).held",
        "return (Op(x) @ Reflects(x)).held",
        "return (Reflects(x) @ Op(x)).held",
        "return (Reflects(x) @ SameReflected(x)).held",
        "return (Op(x) @ SameReflected(x) @ Op(x)).held",
        "return (Op(x) @ Only(x)).held",
        "return (3 @ Only(x)).held",
        "a = b = Places(x)\na @= Op(x)\nreturn a.held, a is b",
        "a = b = Places(x)\na @= Only(x)\nreturn a.held, a is b",
        "a = Op(x)\na @= Op(x)\nreturn a.held",
        "a = 's'\na @= Only(x)\nreturn a.held",
    ],
)
def test_methods_are_called_in_pythons_order(body: str) -> None:
    place = 42 + ("\n" in body)
    check(_of(body), [X, -X, X.T.contiguous()], grad=True, **_wanted(f"polyfill@{place}"))


@pytest.mark.parametrize(
    "body",
    [
        "return Op(x) @ 's'",
        "return Plain() @ Op(x)",
        "return Only(x) @ Only(x)",
        "return Only(x) @ 3",
        "return Op(x) @ Plain()",
        "a = Places(x)\na @= 's'\nreturn a",
        "try:\n    return Op(x) @ 's'\nexcept TypeError as error:\n    return x + 1, str(error)",
    ],
)
def test_operands_without_a_product_raise_as_in_eager_python(body: str) -> None:
    check(_of(body), [X, -X], mends=None, declines=None, breaks=None)


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"])
def test_other_operators_with_a_tensor(symbol: str) -> None:
    names = {
        **{"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod"},
        **{"**": "pow", "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift"},
    }
    source = f"""
class Box:
    def __init__(self, t):
        self.held = t

    def __{names[symbol]}__(self, other):
        return Box(self.held * 2 + getattr(other, "held", other))

    def __i{names[symbol]}__(self, other):
        self.held = self.held - other
        return self

def f(x):
    box = Box(x) {symbol} x
    box {symbol}= x
    return (box {symbol} box).held
"""
    check(source, [X, -X], grad=True, **_wanted("polyfill@13 polyfill@14"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        "Op.__matmul__ = lambda self, other: Op(self.held + 7)",
        "Op.__rmatmul__ = lambda self, other: Op(self.held + 8)",
        "Reflects.__rmatmul__ = lambda self, other: Op(self.held + 9)",
        "del Reflects.__rmatmul__",
        "Reflects.__matmul__ = lambda self, other: Op(self.held + 10)",
        "del Op.__matmul__",
        "Op.__matmul__ = None",
    ],
)
@pytest.mark.parametrize("body", ["Op(x) @ Reflects(x)", "left @ right"])
def test_methods_that_come_and_go(change: str, body: str) -> None:
    before = f"{CLASSES}\nimport torch\nleft, right = Op(torch.eye(3)), Reflects(torch.eye(3) + 1)"
    changing(
        before.replace("(x)", "(x)"), f"x = x.diag()\nreturn ({body}).held", change, mends=None
    )


@pytest.mark.parametrize(
    "prepared", ["a.__matmul__ = lambda other: 1", "a.__dict__['__matmul__'] = lambda other: 1"]
)
def test_an_attribute_of_the_object_is_not_asked(prepared: str) -> None:
    body = f"a = Op(x)\n{prepared}\nreturn (a @ Op(x)).held"
    check(_of(body), [X, -X], mends=None, declines=None, breaks=None)
    source = f"{CLASSES}\nimport torch\na = Op(torch.ones(2, 2))\n{prepared}\n"
    source += "\ndef f(x):\n    return (a @ Op(x)).held"
    check(source, [X, -X], mends=None, declines=None, breaks=None)


@pytest.mark.parametrize(
    "method",
    [
        "__matmul__ = staticmethod(lambda other: other)",
        "__matmul__ = classmethod(lambda cls, other: other)",
        "__matmul__ = isinstance",
        "__matmul__ = None\n    def __rmatmul__(self, other):\n        return self",
        "def __getattr__(self, name):\n        return lambda other: other",
    ],
)
def test_what_is_no_plain_function_is_left(method: str) -> None:
    source = f"""
class Odd:
    def __init__(self, t):
        self.held = t

    {method}

def f(x):
    return (Odd(x) @ Odd(x + 1)).held
"""
    check(source, [X, -X], mends="", declines=None, breaks=None)


@pytest.mark.parametrize("right", ["Left(x + 1)", "Right(x + 1)"])
def test_none_in_place_of_a_method_and_a_method_of_the_class_itself(right: str) -> None:
    source = f"""
class Kind(type):
    def __matmul__(cls, other):
        return 1

class Left(metaclass=Kind):
    {{}}

    def __init__(self, t):
        self.held = t

class Right(Left):
    def __rmatmul__(self, other):
        return other.held * 5

def f(x):
    return Left(x) @ {right}
"""
    for line in ("__matmul__ = None", "pass"):
        check(source.format(line), [X, -X], mends=None, declines=None, breaks=None)


def test_a_class_that_a_call_changes() -> None:
    body = "a = Op(x) @ Op(x)\nreturn a.held, len(seen)"
    calls = [X, Change("seen.clear()"), X, -X]
    check(_of(body), calls, mends=None, declines=None, breaks=None, orders=1)
