"""A call that breaks the graph is mended where it is met: the trace does not start again."""

from __future__ import annotations

import pytest
import torch

from tests.frames.test_on_stack_replacement import attempts_of
from tests.oracle import check
from tests.releases import since

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
if since(2, 14):  # whose Dynamo sorts in Python
    ATTEMPTS["tensors that are sorted"] = 2


@pytest.mark.slow
@pytest.mark.parametrize("name", MENDED)
def test_it_takes_one_attempt(name: str) -> None:
    source, mends = MENDED[name]
    likely = [UP, UP * 2, UP * 3]
    check(source, [*likely, DOWN, *likely], mends=mends)
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
        declines="unhandled-instruction@5",
        breaks=2,
    )


CAPTURED = """
    def f(x):
        y = x.sum().item()
        rows = torch.nonzero(x > 0)
        kept = x[rows.squeeze(1)]
        return rows.sum() + kept.sum() + y
"""


def test_symbols_are_made_from_there_on() -> None:
    """A refused operator has a node already, which does not stay."""
    calls = [UP, DOWN, torch.tensor([1.0, -1.0, 0.0])]
    check(CAPTURED, calls, mends="capture@2 capture@3")
    nonzero = """
        def f(x):
            rows = torch.nonzero(x > 0)
            return rows.sum() + x.sum()
    """
    check(nonzero, calls, mends="capture@2")
    assert attempts_of(nonzero, UP) == [1]


def test_settings_are_put_back() -> None:
    config = torch._dynamo.config
    before = config.capture_scalar_outputs, config.capture_dynamic_output_shape_ops
    attempts_of(CAPTURED, UP)
    assert (config.capture_scalar_outputs, config.capture_dynamic_output_shape_ops) == before


def test_a_break_of_dynamos_after_it_starts_again_with_the_users_settings() -> None:
    check(
        """
        def f(x):
            rows = torch.nonzero(x > 0)
            torch._dynamo.graph_break()
            more = torch.nonzero(x < 0)
            return rows.sum() + more.sum() * 2
        """,
        [UP, DOWN, torch.tensor([1.0, -1.0, 0.0])],
        mends="hoist@2 capture@4",
        declines="break-requested@3",
        breaks=3,
    )


CHANGING = {
    "a list": "KEPT.append(1)\n            return t",
    "a number": "nonlocal n\n            n += 1\n            return t",
    "an object": "thing.n += 1\n            return t",
    "the list itself, once": "if not KEPT:\n                KEPT.append(1)\n                y.append(t)\n            return t",
    "what it gives": "KEPT.append(1)\n            return t * (len(KEPT) - 2)",
}


@pytest.mark.parametrize("call", ["sorted(y, key=key)", "y.sort(key=key)"])
@pytest.mark.parametrize("body", CHANGING.values(), ids=CHANGING.keys())
def test_what_is_traced_before_the_break_is_not_traced_twice(body: str, call: str) -> None:
    """Dynamo calls the key of each item before it refuses to sort them."""
    source = f"""
    KEPT = []

    class Thing:
        n = 0

    thing = Thing()

    def f(x):
        n, y = 0, [x[2], x[0], x[1]]

        def key(t):
            {body}

        try:
            found = {call}
        except ValueError as error:
            found = str(error)
        return found, y, n
    """
    check(source, [UP, UP, DOWN], None, declines=None, breaks=None, orders=1)
