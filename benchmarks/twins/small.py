"""Small programs that break under stock ``torch.compile``, and their hand-fixed twins."""

from __future__ import annotations

import logging

import torch
from torch import nn

WIDTH = 64

logger = logging.getLogger("benchmarks.small")
logger.propagate = False
logger.addHandler(logging.NullHandler())


class ClampMLP(nn.Module):
    """An MLP whose layers each clamp infinities behind a data-dependent branch."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.guard(torch.relu(layer(x)))
        return x

    def guard(self, x: torch.Tensor) -> torch.Tensor:
        if torch.isinf(x).any():
            x = torch.clamp(x, max=1e4)
        return x


class ClampMLPTwin(ClampMLP):
    def guard(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(torch.isinf(x).any(), torch.clamp(x, max=1e4), x)


def early_return(x: torch.Tensor) -> torch.Tensor:
    """Leaves early for inputs that need nothing done."""
    x = x * 2
    if x.abs().max() < 1:
        return torch.tanh(x)
    return torch.sin(x) + torch.cos(x)


def early_return_twin(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    return torch.where(x.abs().max() < 1, torch.tanh(x), torch.sin(x) + torch.cos(x))


def chatty(x: torch.Tensor) -> torch.Tensor:
    """Logs after every step."""
    logger.warning("starting with %s rows", x.shape[0])
    x = torch.sin(x)
    logger.warning("sines are there")
    x = x @ x.T
    logger.warning("shape is now %s", tuple(x.shape))
    x = torch.relu(x)
    logger.warning("done")
    return x


def chatty_twin(x: torch.Tensor) -> torch.Tensor:
    x = torch.sin(x)
    x = x @ x.T
    return torch.relu(x)
