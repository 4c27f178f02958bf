"""Every test starts and ends with stock torch.compile and empty Dynamo caches."""

from __future__ import annotations

import gc
import logging
import math
import os
import sys
import time
from collections.abc import Iterator
from itertools import takewhile
from traceback import FrameSummary, StackSummary, walk_stack

import pytest

from tests.orders import VARIABLE

DEADLINE = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "make the calls of each program in all orders, each with nothing compiled before"
    parser.addoption("--all-orders", action="store_true", help=text)
    text = "skip the tests that have not begun after so many minutes (of each process)"
    parser.addoption("--minutes", type=float, default=math.inf, help=text)


def pytest_configure(config: pytest.Config) -> None:
    os.environ["GRAPHMEND_BC_DISK_CACHE"] = "0"  # nothing of the user's is read or written
    if config.getoption("--all-orders"):
        os.environ[VARIABLE] = "1"
    config.stash[DEADLINE] = time.monotonic() + 60 * config.getoption("--minutes")
    # pytest's handlers would have torch write its structured trace in every test.
    logging.getLogger("torch.__trace").addHandler = lambda handler: None  # type: ignore[method-assign]
    # Dynamo collects younger generations at each compilation, and every tenth time that is a full one.
    gc.set_threshold(gc.get_threshold()[0], gc.get_threshold()[1], 500)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.monotonic() > item.config.stash[DEADLINE]:
        pytest.skip(f"It had not begun after {item.config.getoption('--minutes'):g} minutes.")


def stack_of_a_test() -> StackSummary:
    """The frames from a test on, for torch, which asks at each graph break: pytest's are many."""
    frames = takewhile(lambda at: "_pytest" not in at[0].f_code.co_filename, walk_stack(None))
    summaries = [
        FrameSummary(frame.f_code.co_filename, line, frame.f_code.co_name, lookup_line=False)
        for frame, line in frames
    ]
    return StackSummary(reversed(summaries))


@pytest.fixture(autouse=True)
def clean_slate(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if "torch" not in sys.modules:  # the bytecode layers are tested without it
        yield
        return
    import torch

    import graphmend_bc as gm

    torch._dynamo.reset()
    gm.disable()
    gm.reset()
    # Every compilation times its guards on a flushed cache, which costs as much as the rest of it.
    untimed = "torch._dynamo.guards.profile_guard_manager", lambda *_: 0.0
    monkeypatch.setattr(*untimed, raising=False)
    stack = "torch._dynamo.exc._extract_stack_with_positions", stack_of_a_test
    monkeypatch.setattr(*stack, raising=False)
    modes = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    yield
    gm.disable()
    torch._dynamo.reset()
    logging.getLogger("program").filters.clear()  # of a program that ended before it could
    assert modes == (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
