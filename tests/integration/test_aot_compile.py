"""`torch.compile(f).aot_compile(...)` keeps a graph without what we put around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import Unsupported

import graphmend_bc as gm
from tests.processes import python

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


def listed(x: torch.Tensor) -> list[torch.Tensor]:
    if x.sum() > 0:
        return [x * 2]
    return [x - 1, x]


def refuses(x: torch.Tensor) -> torch.Tensor:
    if (x < 0).any():
        raise ValueError("negative")
    return x + 1


def doubled(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    if x.sum() > 0:
        x = x * 2
    return x


def tells(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("sum", x.sum())
    return x * 2


@pytest.fixture(autouse=True)
def aot() -> Any:
    torch._dynamo.reset()
    with torch._dynamo.config.patch(enable_aot_compile=True), gm.enabled():
        yield


def ahead_of_time(function: Callable[..., Any]) -> Callable[..., Any]:
    compiled: Any = torch.compile(function, fullgraph=True, backend="eager")
    result: Callable[..., Any] = compiled.aot_compile(((UP,), {}))
    return result


@pytest.mark.parametrize("function", [listed, refuses])
def test_a_speculation_is_declined(function: Callable[..., Any]) -> None:
    with pytest.raises(Unsupported, match="Data-dependent branching") as raised:
        ahead_of_time(function)
    assert any("under-export" in note for note in raised.value.__notes__)
    assert {decline.reason for decline in gm.report().declines} == {"under-export"}
    assert gm.report().mends == []


def test_what_runs_after_the_graph_is_declined_by_name() -> None:
    """torch could not save it, and would name no line of the program."""
    with pytest.raises(Unsupported) as raised:
        ahead_of_time(tells)
    (note,) = raised.value.__notes__
    assert "under-export" in note
    assert f"{__file__}:{tells.__code__.co_firstlineno + 2}" in note
    assert gm.report().mends == []


def test_a_selection_is_mended() -> None:
    compiled = ahead_of_time(doubled)
    for x in (UP, DOWN, UP):
        assert torch.equal(compiled(x), doubled(x))
    assert [mend.strategy for mend in gm.report().mends] == ["where"]


FUNCTIONS = """
import torch

def where(x, w):
    if x.sum() > 0:
        x = x * 2
    return x + 1

def fold(x, w):
    if (x * x).sum() < 0:
        x = x + 5
    return x * 2

def cond(x, w):
    if x.sum() > 0:
        y = w @ x
    else:
        y = x + 1
    return y * 2

def while_loop(x, w):
    x = x + 1
    while x.abs().sum() > 1:
        x = torch.tanh(x) * 0.25
    return x + 1

ALL = (where, fold, cond, while_loop)
CALLS = [(sign * torch.ones(4), torch.eye(4) * 3) for sign in (1, -1, 0.125)]
"""

SAVES = """
import sys
import torch
import functions
import graphmend_bc as gm

gm.enable(cache=False)
torch._dynamo.config.enable_aot_compile = True
with torch.no_grad():
    for function in functions.ALL:
        compiled = torch.compile(function, fullgraph=True).aot_compile((functions.CALLS[0], {}))
        compiled.save_compiled_function(f"{sys.argv[1]}/{function.__name__}")
print(sorted(mend.strategy for mend in gm.report().mends))
"""

LOADS = """
import sys
import torch
import functions

with torch.no_grad():
    for function in functions.ALL:
        with open(f"{sys.argv[1]}/{function.__name__}", "rb") as file:
            loaded = torch.compiler.load_compiled_function(file)
        for call in functions.CALLS:
            torch.testing.assert_close(loaded(*call), function(*call))
print("graphmend_bc" in sys.modules)
"""


def test_what_is_saved_is_loaded_without_us(tmp_path: Path) -> None:
    """Nothing of ours is in the files; both arms are."""
    for name, text in {"functions": FUNCTIONS, "saves": SAVES, "loads": LOADS}.items():
        (tmp_path / f"{name}.py").write_text(text)
    said = []
    for script in ("saves", "loads"):
        env = {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = python(str(tmp_path / f"{script}.py"), str(tmp_path), env=env)
        assert not done.returncode, done.stderr
        said.append(done.stdout.strip())
    assert said == ["['cond', 'where', 'where', 'while_loop']", "False"]
