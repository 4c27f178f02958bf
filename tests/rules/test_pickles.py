"""Pickles of plain values, as keys of what a library remembers."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees, check

X = torch.tensor([1.0, -2.0, 3.0])

NAMES = """
import pickle
count, name, factor, options = 3, "t", 0.5, {"a": 1, "b": [1, 2]}
"""


def program(value: str) -> str:
    return f"{NAMES}\ndef f(x):\n    return x * 2, pickle.dumps({value})"


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        "{'a': 1, 'b': (1, 2, None, True, 2.5, b'q', 'zz', [3, [4]], {}, (), 2**70, -1)}",
        "[1, 1, 1000, 1000, 1.5, 1.5, None, None, (), ()]",
        "(count, name, factor, options)",
        r"('\u1234', '\ud800', 'q' * 300)",
        "(1, 'a'), protocol=2",
    ],
)
def test_plain_values(value: str) -> None:
    check(program(value), [X, -X], "fold@5")


@pytest.mark.parametrize(
    "value",
    [
        "('a', 'a')",
        "{'a': 'a'}",
        "[(1, 2), (1, 2)]",
        "[options, options]",
        "-0.0",
        "float('nan')",
        "torch.float32",
        "{1, 2}",
        "(1, 'a'), protocol=99",
        "(1, 'a'), fix_imports=False",
    ],
)
def test_what_is_left_to_python(value: str) -> None:
    outcome = agrees(program(value), [X, -X])
    assert "call-not-traced@5" in outcome.declines
    assert "fold" not in outcome.mends


def test_other_values_are_noticed() -> None:
    calls: list[object] = [X, X]
    steps = ["count = 4", "count = True", "count = 4.0", "name = 'u'", "factor = 0.25"]
    steps += ["options['a'] = 2", "options['b'].append(9)", "options = {'b': [1], 'a': 1}"]
    steps += ["factor = 0.0", "factor = -0.0"]
    for step in steps:
        calls += [Change(step), X, X]
    agrees(program("(count, name, factor, options)"), calls, orders=1)


def test_another_function_of_that_name() -> None:
    steps: list[object] = [Change("kept, pickle.dumps = pickle.dumps, lambda value: b'q'"), X]
    steps += [Change("pickle.dumps = kept; del kept"), X]
    check(program("(1, 2)"), [X, X, *steps], "fold@5", orders=1)


def test_results_that_are_remembered_by_their_arguments() -> None:
    source = """
        import functools, pickle

        def remembered(method):
            @functools.wraps(method)
            def call(self, *args, **kwargs):
                key = method.__name__, args, pickle.dumps(kwargs)
                if key not in self.memory:
                    self.memory[key] = method(self, *args, **kwargs)
                return self.memory[key]
            return call

        class Operator:
            def __init__(self, x):
                self.x, self.memory = x, {}

            @remembered
            def power(self, exponent=2):
                return self.x ** exponent

        kept = Operator(torch.ones(3) * 3)

        def f(x):
            made = Operator(x)
            return made.power() + made.power() + made.power(exponent=3) + kept.power()
        """
    calls: list[object] = [
        X,
        X,
        Change("kept.memory.clear()"),
        X,
        Change("kept = Operator(torch.ones(3))"),
        X,
    ]
    check(source, calls, "fold@6", orders=1)
