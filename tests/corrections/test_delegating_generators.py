"""`result = yield from inner`: the result is what the inner generator returns."""

from __future__ import annotations

from itertools import product
from textwrap import indent

import pytest

from tests.surroundings import after_branch

INNER = {
    "tensor": "yield x\nreturn x * 10",
    "number": "yield x\nreturn 3",
    "nothing": "yield x",
    "at once": "return x + 1\nyield x",
    "by a branch": "yield x\nif x.sum() > 3: return x * 10\nreturn x - 10",
    "of another": "return (yield from deeper(x))",
    "after a handler": "try: yield x\nfinally: x = x + 1\nreturn x",
    "raised": "yield x\nreturn [x, 'v']",
}

OUTER = {
    "given on": "r = yield from inner(x)\nyield r",
    "in a loop": "for k in range(2):\n    r = yield from inner(x + k)\n    yield k, r",
    "returned": "return (yield from inner(x))",
    "of two": "yield (yield from inner(x)), (yield from inner(-x))",
    "of a list": "r = yield from [x, x + 1]\nyield r",
    "of an iterator": "r = yield from Items(x)\nyield r",
    "in a handler": "try:\n    raise ValueError('v')\n"
    "except ValueError:\n    r = yield from inner(x)\n    yield r, sys.exc_info()[0]",
    "after a handler": "r = yield from inner(x)\ntry:\n    raise ValueError(r)\n"
    "except ValueError as e:\n    yield e.args, e.__context__",
}


GENERATORS = """
import sys
class Items:
    def __init__(self, x): self.x, self.n = x, 0
    def __iter__(self): return self
    def __next__(self):
        self.n += 1
        if self.n > 2: raise StopIteration(self.n)
        return self.x * self.n
def deeper(x):
    yield x - 1
    return x * 7
"""
PAIRS = {*product(INNER, ["given on"]), *product(["tensor", "by a branch"], OUTER)}


def generators(inner: str, outer: str) -> str:
    bodies = {"inner": INNER[inner], "outer": OUTER[outer]}
    return GENERATORS + "\n".join(
        f"def {name}(x):\n{indent(body, '    ')}" for name, body in bodies.items()
    )


@pytest.mark.parametrize(("inner", "outer"), sorted(PAIRS))
def test_result(inner: str, outer: str) -> None:
    outcome = after_branch(generators(inner, outer), "return list(outer(x))")
    assert outcome.mends or outcome.declines


def test_value_of_the_end() -> None:
    ends = "it = outer(x)\nnext(it)\ntry: next(it)\nexcept StopIteration as e: return e.value"
    outcome = after_branch(generators("tensor", "returned"), ends)
    assert outcome.mends
    assert not outcome.declines
