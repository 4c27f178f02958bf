"""How many attempts a frame takes: one that has failed goes on to meet what else it would fail at."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import torch

from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult
from tests.oracle import check, load

WAVE = torch.sin(torch.arange(64.0) * 1.7)
BOTH = [WAVE, -WAVE]

IN_PLACE_OF_TENSORS = "        x = x * 2\n"
NUMBERS = "        k = 2\n    else:\n        k = 3\n    x = x * k\n"


def sites(count: int, arms: str) -> str:
    body = "".join(f"    if x[{i}] > 0:\n{arms}" for i in range(count))
    return f"def f(x):\n    x = torch.sin(x)\n{body}    return x + 1\n"


def rounds(count: int, arms: str) -> str:
    return f"""
def f(x):
    total = x.new_zeros(())
    for i in range({count}):
        if x[i] > 0:
            {arms.split("|")[0]}
        else:
            {arms.split("|")[1]}
        total = total + k
    return total
"""


CALLEES = """
def clamp(x):
    if x.max() > 1:
        x = x / x.max()
    return x

def check(x):
    if torch.isnan(x).any():
        raise ValueError("nan")

def scale(x):
    k = 2 if x[0] > 0 else 3
    return x * k

def f(x):
    check(x)
    x = clamp(x)
    x = scale(x)
    return clamp(x) + scale(x)
"""


def attempts_of(source: str, *args: Any) -> list[int]:
    """The attempts at each frame of `f`, the last one included."""
    torch._dynamo.reset()
    frames: list[FrameResult] = []
    state = session.new_state(mends=True)
    state.on_frame.append(frames.append)
    with session.mending_by(state):
        torch.compile(load(textwrap.dedent(source)).f, backend="eager")(*args)
    return [len(frame.attempts) + 1 for frame in frames]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "attempts"),
    [
        ("def f(x):\n    return x + 1", 1),
        (sites(1, IN_PLACE_OF_TENSORS), 1),
        (sites(10, IN_PLACE_OF_TENSORS), 1),
        (sites(60, IN_PLACE_OF_TENSORS), 2),
        (sites(1, NUMBERS), 1),
        (sites(10, NUMBERS), 1),
        (sites(60, NUMBERS), 3),
        (rounds(60, "k = x[i] * 2|k = x[i] - 1"), 1),
        (rounds(60, "k = 2|k = 3"), 1),
        (CALLEES, 1),
    ],
)
def test_attempts(source: str, attempts: int) -> None:
    assert attempts_of(source, WAVE) == [attempts]


@pytest.mark.parametrize(
    ("arms", "mends"),
    [
        (IN_PLACE_OF_TENSORS, "where@3 where@5 where@7 where@9"),
        (NUMBERS, "speculate@3 speculate@8 speculate@13 speculate@18"),
    ],
)
def test_many_sites_are_mended_alike(arms: str, mends: str) -> None:
    check(sites(4, arms), BOTH, mends)


@pytest.mark.slow
def test_frame_result_says_what_attempts_failed_at() -> None:
    torch._dynamo.reset()
    frames: list[FrameResult] = []
    state = session.new_state(mends=True)
    state.on_frame.append(frames.append)
    with session.mending_by(state):
        torch.compile(load(sites(60, NUMBERS)).f, backend="eager")(WAVE)
    *_, failed = frames[0].attempts
    assert failed.count("arms-differ") > 2


def test_what_a_survey_met_on_a_way_that_is_not_taken() -> None:
    """The bytecode suggests another way than the call takes; no decline tells of the jumps there."""
    check(
        """
        import time

        def f(x):
            y = torch.sin(x)
            if y[0] + y[1] + y[2] + y[3] + y[4] + y[5] + y[6] + y[7] + y[8] + y[9] > 100:
                time.sleep(0)
                while y.sum() > 0:
                    time.sleep(0)
                    y = y - 1
                if y.sum() > 0:
                    k = 2
                else:
                    k = 3
                return y * k
            return y + 1
        """,
        BOTH,
        mends="speculate@5",
        declines="call-not-traced@6",
        orders=1,
    )


def test_survey_of_a_loop_without_an_end() -> None:
    check(
        """
        def f(x):
            y, n = torch.sin(x), 0
            flag = y[0] > 2
            while True:
                n += 1
                if flag:
                    continue
                if n > 3:
                    break
            if y[1] > 0:
                y = y * 2
            return y + n
        """,
        BOTH,
        mends="hoist@6 where@10",
        orders=1,
    )


def test_code_that_acts_while_it_is_traced_does_not_in_a_survey() -> None:
    """Dynamo sets some of the process's settings while it traces; the survey goes the wrong way."""
    check(
        """
        def f(x):
            y = torch.sin(x)
            if y.sum() > 1000:
                torch.set_grad_enabled(False)
            if y[0] > 0:
                y = y * 2
            return y + 1, torch.is_grad_enabled()
        """,
        BOTH,
        mends="speculate@3 where@5",
        orders=1,
    )
