"""A call that breaks the graph is mended where it is met: the trace does not start again."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.trace.test_on_stack_replacement import attempts_of

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])

MENDED = {
    "a name that nobody knows": (
        """
        say = print

        def f(x):
            y = x * 2
            say("sum", y.sum())
            return y + 1
        """,
        "defer@5",
    ),
    "in a callee that is called again": (
        """
        say = print

        def g(x, n):
            say(n)
            return x * n

        def f(x):
            for n in (1, 2):
                x = g(x, n)
            return x
        """,
        "defer@4",
    ),
    "with keywords and unpacked arguments": (
        """
        say = print

        def f(x, *parts, **options):
            say(*parts, end="!", **options)
            say(x, sep="", end="")
            return x + 1
        """,
        "defer@4 defer@5",
    ),
    "tensors that are sorted": (
        """
        def f(x):
            first, *_ = sorted([x[0], x[2], x[1]])
            return x * first
        """,
        "speculate@2",
    ),
    "beside a jump": (
        """
        say = print

        def f(x):
            if x.sum() > 0:
                x = x + 1
            say(x)
            if x.max() > 3:
                x = x * 2
            say(x)
            return x
        """,
        "where@4 defer@6 speculate@7 defer@9",
    ),
    "in a try block": (
        """
        say = print

        def f(x):
            try:
                say(x.sum())
                return x + {}["a"]
            except KeyError:
                say("no")
            finally:
                say("done")
            return x - 1
        """,
        "defer@5 defer@8 defer@10",
    ),
}

ATTEMPTS = {"beside a jump": 2}  # `where` is tried for the second condition


@pytest.mark.parametrize("name", MENDED)
def test_it_takes_one_attempt(name: str) -> None:
    source, mends = MENDED[name]
    check(source, [UP, DOWN, UP * 2], mends=mends)
    assert attempts_of(source, UP) == [ATTEMPTS.get(name, 1)]


def test_what_no_rule_mends_is_left_at_once() -> None:
    source = """
        import os

        def f(x):
            x = x + 1
            open(os.devnull).close()
            x = x * 2
            open(os.devnull).close()
            return x
    """
    check(source, [UP, DOWN], declines="call-not-traced@5 call-not-traced@7", breaks=4)
    assert attempts_of(source, UP)[0] == 1


def test_an_iterator_is_not_used_up() -> None:
    """The refused call may have taken something from it, so the trace starts again."""
    check(
        """
        say = print

        def f(x):
            rows = iter([1, 2, 3])
            say(*zip(rows, rows))
            say(next(rows), x.sum())
            return x
        """,
        [UP, DOWN],
        mends=None,
        declines=None,
        breaks=None,
    )


def test_what_the_call_left_in_the_graph_does_not_stay() -> None:
    """A refused operator has a node already."""
    check(
        """
        def f(x):
            rows = torch.nonzero(x > 0)
            return rows.sum() + x.sum()
        """,
        [UP, DOWN, torch.tensor([1.0, -1.0, 0.0])],
        mends="capture@2",
    )
