"""The forms of `twins/forms.py`, their three arms side by side."""

from __future__ import annotations

import copy
import importlib.util
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from measuring import ARMS, start_arm

import graphmend_bc as gm

WARM_UP = 40
"""Calls before anything is timed: enough for a wrong speculation to be given up."""

SCALE = 1e6
"""Factor by which an input that takes the unlikely arm is larger."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A form; the names of its classes in `twins/forms.py` are `cls` and `cls` + "Twin".

    Attributes:
        name: what the tables call it.
        cls: name of the class.
        misses: None, or the factor on an input that makes the graph useless.
    """

    name: str
    cls: str
    misses: float | None = None


SUBJECTS = (
    Subject("early return", "EarlyReturn"),
    Subject("clamp", "Clamp"),
    Subject("ternary", "Ternary"),
    Subject("short circuit", "ShortCircuit"),
    Subject("nested ifs", "Nested"),
    Subject("layer loop", "LayerLoop"),
    Subject("raise guard", "RaiseGuard", float("nan")),
    Subject("assert", "AssertGuard", SCALE),
    Subject("Python value", "PythonValue", SCALE),
    Subject("break", "Break", SCALE),
    Subject("while loop", "WhileLoop"),
    Subject("dear arm", "DearArm"),
    Subject("partial op", "PartialOp"),
    Subject("steering item", "Steering", SCALE),
    Subject("buffer update", "BufferUpdate"),  # a miss raises the peak: there is no second one
    Subject("in-place arm", "InPlace", SCALE),
    Subject("log only", "LogOnly"),
)


class Build:
    """The three arms of a form at one size, with the same weights.

    Each arm has its class from a module of its own: Dynamo keeps what it compiled on the code
    object, so arms that shared one could not be in use side by side.
    """

    def __init__(
        self, subject: Subject, width: int, batch: int, device: torch.device | None = None
    ) -> None:
        torch.manual_seed(0)
        self.models: dict[str, Any] = {}
        for arm in ARMS:
            name = subject.cls + ("Twin" if arm == "twin" else "")
            self.models[arm] = getattr(_load_forms(arm), name)(width).eval().to(device)
        weights = copy.deepcopy(self.models["stock"].state_dict())
        for model in self.models.values():
            model.load_state_dict(weights)
        self.eager = getattr(_load_forms("eager"), subject.cls)(width).eval().to(device)
        self.eager.load_state_dict(weights)
        x = torch.randn(batch, width, generator=torch.Generator().manual_seed(1))
        self.x = x.to(device)

    def compile(self, arm: str, backend: str = "inductor") -> Callable[[torch.Tensor], Any]:
        """The arm as its user calls it; nothing is compiled before the first call."""
        model = self.models[arm]
        compiled = torch.compile(model, backend=backend)
        if arm != "twin":
            return compiled
        return lambda x: model.settle(compiled(x))

    @cached_property
    def compiled(self) -> dict[str, Callable[[torch.Tensor], Any]]:
        """All arms, side by side, compiled, equal to eager and past their first guesses."""
        start_arm("stock")
        calls = {}
        for arm in ARMS:
            gm.disable()
            if arm == "mended":
                gm.enable()
                gm.reset()
            calls[arm] = self.compile(arm)
            for _ in range(WARM_UP):
                calls[arm](self.x)
        gm.disable()
        expected = self.eager(self.x)
        for arm, call in calls.items():
            # Inductor fuses: sums may be rounded otherwise than in eager.
            torch.testing.assert_close(
                call(self.x), expected, msg=lambda text, arm=arm: f"{arm}: {text}"
            )
        return calls


def _load_forms(arm: str) -> types.ModuleType:
    path = Path(__file__).parent / "twins" / "forms.py"
    spec = importlib.util.spec_from_file_location(f"forms_{arm}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # Dynamo looks a function's module up there
    spec.loader.exec_module(module)
    return module
