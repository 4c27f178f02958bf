"""The random generators that a program draws from without being given one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy
import torch


def global_generators() -> tuple[object, ...]:
    """The generators of Python, NumPy and torch that functions draw from by themselves."""
    ours: Any = random.random, numpy.random.random_sample
    return *(function.__self__ for function in ours), torch.default_generator


@dataclass(frozen=True, slots=True)
class RandomState:
    """The states of the generators of Python, NumPy and torch."""

    python: Any
    numpy: Any
    cpu: torch.Tensor
    cuda: tuple[torch.Tensor, ...]

    @classmethod
    def now(cls) -> RandomState:
        """The states as they are."""
        initialised: Any = torch.cuda.is_initialized
        devices = torch.cuda.get_rng_state_all() if initialised() else ()
        return cls(random.getstate(), numpy.random.get_state(), torch.get_rng_state(), (*devices,))

    def restore(self) -> None:
        """Make the generators as they were."""
        random.setstate(self.python)
        numpy.random.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)

    def differs_in(self, other: RandomState) -> str:
        """Whose generators are in other states; empty if none is."""
        found = []
        if self.python != other.python:
            found.append("Python")
        if any(numpy.any(a != b) for a, b in zip(self.numpy, other.numpy, strict=True)):
            found.append("NumPy")
        if not torch.equal(self.cpu, other.cpu) or not all(
            torch.equal(a, b) for a, b in zip(self.cuda, other.cuda, strict=False)
        ):
            found.append("torch")
        return " and ".join(found)
