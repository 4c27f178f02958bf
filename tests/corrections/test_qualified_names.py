"""The qualified name of a function as a key, in texts and comparisons."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

PROGRAM = """
import functools

def cached(method):
    @functools.wraps(method)
    def call(self, x):
        name = method.__qualname__
        if name not in self.kept:
            self.kept[name] = method(self, x)
        return self.kept[name]
    return call

class A:
    def __init__(self):
        self.kept = {{}}

    @cached
    def run(self, x):
        return x * 2

def f(x):
    {body}
"""
CALLS = [torch.ones(3), torch.zeros(3)]


@pytest.mark.parametrize(
    "body",
    [
        "return A().run(x)",
        "a = A(); y = a.run(x); return y, a.run(x) is y, [*a.kept]",
        "return x * len(A.run.__qualname__), A.run.__qualname__ == 'A.run'",
        "return x * len(A.run.__name__), A.run.__name__ == 'run'",
        "return x + 1, f'{f.__qualname__} of {cached.__qualname__}'",
        "return x + {'f': 1}[(lambda: f)().__qualname__]",
    ],
)
def test_names(body: str) -> None:
    check(PROGRAM.format(body=body), CALLS)


def test_a_name_that_is_changed() -> None:
    source = PROGRAM.format(body="return x * len(A.run.__qualname__)")
    source += "\ndef change(number):\n    A.run.__qualname__ = 'A.run' + 'x' * (number % 3)\n"
    check(source, [*CALLS, *CALLS], breaks=None)
