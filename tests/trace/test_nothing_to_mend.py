"""A model without graph breaks: nothing of ours runs in its trace that rests on a plan."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

from graphmend_bc import session
from graphmend_bc.dynamo.frames import breaks
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.rollback import graph_proof
from graphmend_bc.dynamo.trace import op_recorder
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.engine.plans import frame_breaks, rewrite_cache
from graphmend_bc.rules import rule


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.loud = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = float(self.norm.eps) + int(x.shape[-1] > 2)
        if self.loud:
            print("norm", x.norm().item())
        y = self.inner(x).relu_() * scale
        return torch.as_tensor(self.norm(x + nn.functional.dropout(y, 0.1, self.training)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


COUNTED: list[tuple[Any, str]] = [
    (Recorder, "_note"),
    (op_recorder, "OpRecord"),
    (rewrite_cache, "rewrite"),
    (rule, "graph_of"),
    (frame_breaks, "graph_of"),
    (breaks, "real_offsets"),
    (graph_proof, "_find_rollback"),
]


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found[name] += 1
            return function(*args, **kwargs)

        return call

    for owner, name in COUNTED:
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name)))
    return found


def run(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.reset()
    with session.mending_by(session.new_state(mends=True)):
        torch.manual_seed(0)
        return torch.as_tensor(torch.compile(model, backend="eager")(x))


@pytest.mark.parametrize("trains", [True, False])
def test_nothing_is_looked_at(trains: bool, counts: Counter[str]) -> None:
    model, x = Model().train(trains), torch.ones(2, 4)
    torch.manual_seed(0)
    assert torch.equal(run(model, x), (torch.manual_seed(0), model(x))[1])
    # Operators are put aside as records; nothing is asked of them.
    assert set(counts) <= {"OpRecord"}


def test_all_is_looked_at_once_something_is_mended(counts: Counter[str]) -> None:
    """What ran before it counts too."""
    model = Model().eval()
    layer: Any = model.layers[1]
    layer.loud = True
    run(model, torch.ones(2, 4))
    assert counts["_note"] > 12
    assert counts["_find_rollback"] == 1


def calls_made(model: nn.Module, x: torch.Tensor, mends: bool) -> tuple[int, int]:
    """Calls of our functions and of builtins by them, and all others, while a model is compiled."""
    found: Counter[bool] = Counter()

    def count(frame: FrameType, event: str, arg: object) -> None:
        if event in ("call", "c_call"):
            found[frame.f_code.co_filename.startswith(OURS)] += 1

    torch._dynamo.reset()
    step = torch.compile(model, backend="eager")
    state = session.new_state(mends=mends)
    state.left_alone = set()  # those that the process leaves alone are looked up for each function
    with session.mending_by(state):
        sys.setprofile(count)
        try:
            step(x)
        finally:
            sys.setprofile(None)
    return found[True], found[False]


def test_calls_are_few() -> None:
    """Counted, as a share of all other calls; a third is the frame around each seam.

    torch's calls for its structured trace are not among the others: nobody asks for one.
    """
    model, x = Model().eval(), torch.ones(2, 4)
    calls_made(model, x, mends=True)
    ours, others = calls_made(model, x, mends=True)
    assert ours / others < 0.06
