"""Who may handle what a mended graph raises, where the graph cannot be taken back."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import load

BEFORE = """
import contextlib

def tried(x):
    try:
        return x
    except ValueError:
        return None

def tries(x):
    try:
        y = -x if x.sum() > 3 else x
        return 6 // y
    except RuntimeError:
        return x

class Swallows:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True

class Aliased:
    def __enter__(self):
        return self

    def close(self, *error):
        return True

    __exit__ = close

class Ending(torch.no_grad):
    def __exit__(self, *error):
        super().__exit__(*error)
        return True

@contextlib.contextmanager
def handling():
    try:
        yield
    except RuntimeError:
        pass

@contextlib.contextmanager
def plain():
    yield
"""

BRANCH = "y = -y if y.sum() > 3 else y"


def program(body: str) -> ModuleType:
    lines = [
        "def f(x, state):",
        "    y = x",
        "    state.add_(1)",
        *(f"    {line}" for line in body.splitlines()),
        "    return y",
    ]
    return load("\n".join([BEFORE, *lines]))


@pytest.mark.parametrize(
    ("body", "mended"),
    [
        (f"{BRANCH}\ny = 6 // tried(y)", True),
        (f"with torch.no_grad():\n    {BRANCH}\n    y = 6 // y", True),
        (f"with torch.autocast('cpu'):\n    {BRANCH}\n    y = 6 // y", True),
        (f"with contextlib.nullcontext():\n    {BRANCH}\n    y = 6 // y", True),
        (f"with plain():\n    {BRANCH}\n    y = 6 // y", True),
        ("y = tries(x)", False),
        (f"with Swallows():\n    {BRANCH}\n    y = 6 // y", False),
        (f"with Aliased():\n    {BRANCH}\n    y = 6 // y", False),
        (f"with Ending():\n    {BRANCH}\n    y = 6 // y", False),
        (f"with contextlib.suppress(RuntimeError):\n    {BRANCH}\n    y = 6 // y", False),
        (f"with contextlib.closing(Aliased()):\n    {BRANCH}\n    y = 6 // y", None),
        (
            "with contextlib.ExitStack() as stack:\n    stack.enter_context(Swallows())\n"
            f"    {BRANCH}\n    y = 6 // y",
            False,
        ),
        (f"with torch.no_grad(), Swallows():\n    {BRANCH}\n    y = 6 // y", False),
        (f"with handling():\n    {BRANCH}\n    y = 6 // y", False),
        (f"try:\n    {BRANCH}\n    y = 6 // y\nexcept RuntimeError:\n    pass", False),
    ],
)
def test_what_cannot_be_taken_back(body: str, mended: bool | None) -> None:
    """There is too much of it; a division by zero must reach the handler that awaits it."""
    with gm.enabled(), gm.config.patch(snapshot_limit=8):
        compiled = torch.compile(program(body).f, backend="eager")
        for number in (1, 0, 2, 0, 3):
            x = torch.full((4,), number)
            assert outcome(compiled, x) == outcome(program(body).f, x)
        assert mended is None or (not gm.report().declines) == mended


def outcome(function: Callable[..., Any], x: torch.Tensor) -> object:
    """What a call gives or raises."""
    state = torch.zeros(4)
    try:
        return function(x, state).tolist(), state.tolist()
    except RuntimeError as error:
        return type(error), str(error)
