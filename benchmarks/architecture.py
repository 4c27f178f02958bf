"""One model of transformers as the census calls it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from arms import mean_of, messages, random_numbers, seed_all, timed
from seen import Seen, aliasing, kept, leaves_of


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model to census.

    Attributes:
        copied: makes a copy of the model that shares nothing with other copies.
        inputs: makes the arguments of a call from a seed.
        train: train the model; else it is evaluated without gradients.
        without_cache: call the model with `use_cache=False`.
        numbers: seeds of the calls.
    """

    copied: Callable[[], torch.nn.Module]
    inputs: Callable[[int], dict[str, Any]]
    train: bool
    without_cache: bool = False
    numbers: Sequence[int] = (1, 2, 1)

    def fresh(self) -> _Copy:
        return _Copy(self.copied().train(self.train), self)


@dataclass(frozen=True, slots=True)
class _Copy:
    function: torch.nn.Module
    subject: Architecture

    def call(self, function: Any, number: int, seconds: list[float]) -> Seen:
        """Make one call, and keep what can be seen of it."""
        inputs = self.subject.inputs(number)
        if self.subject.without_cache:
            inputs["use_cache"] = False
        model, train = self.function, self.subject.train
        model.zero_grad(set_to_none=True)
        seed_all(number)
        seen: Seen = {}
        logger = logging.getLogger("transformers")
        told = messages(logger, lambda path: "transformers" in path)
        with torch.set_grad_enabled(train), told as texts, timed(seconds):
            output = function(**inputs)
            leaves = dict(leaves_of(output, "output"))
            seen |= {"aliasing of outputs": aliasing(leaves)}
            if train:
                _loss_of(leaves).backward()
        seen |= {path: kept(leaf) for path, leaf in leaves.items()}
        seen |= {f"gradient of {n}": kept(p.grad) for n, p in model.named_parameters()}
        seen |= {f"state {name}": kept(value) for name, value in model.state_dict().items()}
        seen |= {f"after: {path}": kept(leaf) for path, leaf in leaves_of(inputs, "input")}
        return seen | random_numbers() | {"messages": list(texts)}


def _loss_of(leaves: dict[str, Any]) -> torch.Tensor:
    """The loss, or the mean of all outputs that have a gradient."""
    loss = leaves.get("output.loss")
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss.sum()
    return mean_of(leaves)


def copier(model: torch.nn.Module, rebuilt: Callable[[], torch.nn.Module]) -> Callable[[], Any]:
    """A function that copies a model, or builds it anew where it cannot be copied."""

    def fresh() -> torch.nn.Module:
        try:
            return copy.deepcopy(model)
        except RuntimeError:  # tensors with a history, such as weights that are normed
            other = rebuilt()
            other.load_state_dict(model.state_dict())
            return other

    return fresh
