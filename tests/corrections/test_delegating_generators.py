"""`result = yield from inner`: the result is what the inner generator returns."""

from __future__ import annotations

from itertools import product

import pytest

from tests.oracle import agrees
from tests.surroundings import X

BREAK = "if x.sum() > 0: x = x * 2"

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


def source(inner: str, outer: str, body: str) -> str:
    def block(text: str) -> str:
        return "".join(f"    {line}\n" for line in text.splitlines())

    return (
        "import sys\nclass Items:\n    def __init__(self, x): self.x, self.n = x, 0\n"
        "    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n"
        "        if self.n > 2: raise StopIteration(self.n)\n        return self.x * self.n\n"
        f"def deeper(x):\n    yield x - 1\n    return x * 7\ndef inner(x):\n{block(inner)}"
        f"def outer(x):\n{block(outer)}def f(x):\n{block(body)}"
    )


PAIRS = [*product(INNER, ["given on"]), *product(["tensor", "by a branch"], OUTER)]


@pytest.mark.parametrize(("inner", "outer"), PAIRS)
def test_result(inner: str, outer: str) -> None:
    body = f"{BREAK}\nreturn list(outer(x))"
    outcome = agrees(source(INNER[inner], OUTER[outer], body), [X, -X, X], orders=1)
    assert outcome.mends or outcome.declines


def test_value_of_the_end() -> None:
    ends = f"{BREAK}\nit = outer(x)\nnext(it)\n"
    ends += "try: next(it)\nexcept StopIteration as e: return e.value"
    outcome = agrees(source(INNER["tensor"], OUTER["returned"], ends), [X, -X, X], orders=1)
    assert outcome.mends
    assert not outcome.declines
