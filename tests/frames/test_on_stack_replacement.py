"""A trace that meets a jump on a tensor goes on in rewritten code, wherever the jump is."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch

from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult
from tests.oracle import check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])

WHOLE = {
    "in a with block, in a try": """
        def f(x):
            try:
                with torch.no_grad():
                    if x.sum() > 0:
                        x = x + 1
                    y = x * 2
                if y.mean() > 0:
                    y = y - 1
                y = y + {"a": 1}["a"]
            except KeyError:
                y = y * 0
            finally:
                x = x * 3
            return x, y
    """,
    "the stack holds more than the condition": """
        def f(x):
            return [x * 2, (x + 1 if x.sum() > 0 else x - 1), sum([1, 2 if x is not None else 3])]
    """,
    "cells and a closure": """
        def f(x):
            n = 1
            def add(v):
                nonlocal n
                n += v
                return n
            add(2)
            if x.sum() > 0:
                x = x + n
            add(3)
            return x * n
    """,
    "a recursive function, in its old form outside": """
        def g(x, depth):
            if depth:
                x = g(x, depth - 1)
            if x.sum() > depth:
                x = x + depth
            return x * 2

        def f(x):
            return g(x, 3)
    """,
    "a callee that is called again": """
        def g(x):
            y = x * 2
            if y.sum() > 0:
                y = y + 1
            z = y * 3
            if torch.isnan(z).any():
                z = z * 0
            return z

        def f(x):
            for _ in range(3):
                x = g(x)
            return x
    """,
    "a generator": """
        def parts(x):
            for i in range(3):
                if x[i] > 0:
                    yield x + i
                else:
                    yield x - i

        def f(x):
            total = x * 0
            for part in parts(x):
                if part.sum() > 1:
                    part = part * 2
                total = total + part
            return total
    """,
    "a comprehension": """
        def f(x):
            y = x * 2
            if y.sum() > 0:
                y = y + 1
            return [y + i for i in range(3)], [y - i for i in range(2) if i]
    """,
    "a while loop": """
        def f(x):
            y, n = x.abs() + 1, 0
            while y.sum() < 100:
                y = y * 2
                n = n + 1
            return y, n
    """,
    "a loop whose flag becomes a tensor": """
        def f(x):
            y, done, n = x.abs() + 1, False, 0
            while not done:
                y = y * 2
                n += 1
                done = y.sum() > 40
            return y, n
    """,
    "several conditions at one place": """
        def f(x):
            if (x.sum() > 0 and x[0] < 5) or not x.max() > -2:
                x = x * 2
            return x + 1
    """,
}

ATTEMPTS = {  # where arms cannot be selected, that takes an attempt to find out
    "a while loop": [1],
    "a loop whose flag becomes a tensor": [2],
}


def attempts_of(source: str, x: torch.Tensor) -> list[int]:
    """The attempts at each frame, the last one included."""
    torch._dynamo.reset()
    frames: list[FrameResult] = []
    state = session.new_state(mends=True)
    state.on_frame.append(frames.append)
    with session.mending_by(state):
        torch.compile(load(textwrap.dedent(source)).f, backend="eager")(x)
    return [len(frame.attempts) + 1 for frame in frames]


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_the_trace_goes_on(name: str) -> None:
    outcome = check(WHOLE[name], [UP, DOWN, UP * 2], mends=None)
    assert outcome.mends
    assert attempts_of(WHOLE[name], UP) == ATTEMPTS.get(name, [1])


def test_breaks_after_it_are_found_again() -> None:
    """Dynamo starts again at a break that is left, and must meet the same code on the way there."""
    source = """
        def g(x):
            y = x.cos() if x.sum() > 0 else x.sin()
            torch._dynamo.graph_break()
            return y

        def f(x):
            if x.sum() > 0:
                x = x + 1
            for _ in range(2):
                x = x * 2
                if x.max() > 3:
                    x = x - 1
            x = g(x)
            if x.sum() > 0:
                x = x * 3
            return x + 1
    """
    check(
        source,
        [UP, DOWN],
        mends="where@2 where@7 where@11 where@14",
        declines="break-requested@3",
        breaks=2,
    )
    # What goes on after the break in `g` is empty, and Dynamo is asked once more to skip it.
    assert attempts_of(source, UP) == [1, 1, 2, 1]


def test_instructions_that_are_taken_over_keep_their_constants() -> None:
    """Dynamo compiles up to the last place where it can resume; the rest is the function's code."""
    check(
        """
        rate = 2.0

        def f(x, k):
            if x.sum() > 0:
                x = x * rate
                try:
                    x = x * missing
                except NameError:
                    x = x - 7
            print("here", "and", sep="-", end="!")
            torch._dynamo.graph_break()
            return (x, k, "end", 3.5)
        """,
        [(UP, 2), (DOWN, 2)],
        mends=None,
        declines=None,
        breaks=None,
    )


def test_nothing_is_left_of_a_form_that_is_given_up() -> None:
    """What follows the jump breaks Dynamo's trace of it; the frame goes on at the jump itself."""
    check(
        """
        import os

        def f(x):
            seen = []
            if x.sum() > 0:
                os.getcwd()
                seen.append(1)
            y = x + len(seen)
            if y.sum() > 0:
                y = y * 2
            return y, seen
        """,
        [UP, DOWN],
        mends=None,
        declines=None,
        breaks=None,
    )


@pytest.mark.parametrize("fullgraph", [True, False])
def test_assertions_and_raises(fullgraph: bool) -> None:
    source = """
        def f(x):
            assert x.sum() < 100, f"sum {x.sum().item()}"
            y = x * 2
            if torch.isnan(y).any():
                raise ValueError("nan")
            if y.sum() > 0:
                y = y + 1
            return y
    """
    calls: list[Any] = [UP, DOWN, UP * 100, UP * float("nan"), UP]
    check(source, calls, mends=None, declines=None, breaks=None, fullgraph=fullgraph)
    assert attempts_of(source, UP) == [1]


@pytest.mark.slow
def test_many_jumps_are_written_at_once() -> None:
    """To write a function anew at each of its jumps takes a time that grows with their square."""
    jumps = "".join(f"    if x[{i}] > 0:\n        x = x * 2\n" for i in range(80))
    source = f"def f(x):\n{jumps}    return x + 1\n"
    assert attempts_of(source, torch.sin(torch.arange(80.0))) == [2]
