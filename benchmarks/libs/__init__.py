"""Uses of other libraries, as their documentation shows them; `census_libs.py` counts them.

A module for each area. An item is a function that makes a `Use`; it imports its library itself, so
that a list of all items imports none. Weights and inputs are random, with fixed seeds.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

AREAS = (
    "metrics",
    "losses",
    "diffusion",
    "processes",
    "graphs",
    "audio",
    "tabular",
    "vision",
    "agents",
    "equations",
    "optimizers",
    "sequences",
    "flows",
    "language",
)
"""Modules of this package that have items."""

KINDS = ("eval", "train", "step", "state")

Inputs = Callable[[int], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a library.

    Attributes:
        kind: "eval", without gradients; "train", whose caller makes the backward pass; "step",
            which makes its own; "state", which gathers state, as metrics do.
        function: what is compiled.
        inputs: makes the arguments of a call from its number, which counts from 0.
        state: what calls can change besides: modules, metrics, optimizers.
    """

    kind: str
    function: Callable[..., Any]
    inputs: Inputs
    state: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A use to count: its library's name for pip, its own, and the function that makes it."""

    library: str
    name: str
    make: Callable[[], Use]

    def __str__(self) -> str:
        return f"{self.library}/{self.name}"


_items: dict[str, Item] = {}


def item(library: str) -> Callable[[Callable[[], Use]], Callable[[], Use]]:
    """Decorates a function that makes a use of a library."""

    def note(make: Callable[[], Use]) -> Callable[[], Use]:
        new = Item(library, make.__name__, make)
        if str(new) in _items:
            raise ValueError(f"There are two items {new}.")
        _items[str(new)] = new
        return make

    return note


def items(modules: Sequence[str] = ()) -> dict[str, Item]:
    """The items of some modules, by name; those of all areas if none are named."""
    for module in modules or [f"{__name__}.{area}" for area in AREAS]:
        importlib.import_module(module)
    return dict(_items)


def add_packages(folder: Path) -> None:
    """Let libraries be imported from a folder; what the environment has goes first."""
    sys.path.append(str(folder))
    if (folder / "torchvision").exists():
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            # Its extension is built for CUDA. Its Python only wants these two declared.
            for name in ("nms", "qnms"):
                signature = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                torch.library.define(f"torchvision::{name}", signature)
            importlib.import_module("torchvision")


def size(first: int, number: int) -> int:
    """A size that another one follows in the third call."""
    return first if number < 2 else first + 3


# Usual kinds of use


def evaluated(module: torch.nn.Module, inputs: Inputs) -> Use:
    """A module that is evaluated."""
    return Use("eval", module.eval(), inputs, (module,))


def trained(module: torch.nn.Module, inputs: Inputs) -> Use:
    """A module, or a loss, whose caller makes the backward pass."""
    return Use("train", module.train(), inputs, (module,))


def metric(measure: Any, inputs: Inputs) -> Use:
    """A metric that is updated and computed."""

    def update_and_compute(*batch: Any) -> Any:
        measure.update(*batch)
        return measure.compute()

    return Use("state", update_and_compute, inputs, (measure,))


Loss = Callable[..., torch.Tensor]


def stepped(
    module: torch.nn.Module,
    optimizer: Any,
    loss: Loss,
    inputs: Inputs,
    clip: float = 0.0,
    scheduler: Any = None,
) -> Use:
    """A whole training step; `loss` is given the module and the batch."""

    def training_step(*batch: Any) -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(module, *batch)
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        return value.detach()

    state = (module, optimizer) if scheduler is None else (module, optimizer, scheduler)
    return Use("step", training_step, inputs, state)
