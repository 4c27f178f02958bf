"""Families of models that break, reduced to what breaks them, each beside its hand-fixed twin.

They need torch alone, so they run where transformers does not. The sizes are those of a base model.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

logger = logging.getLogger("benchmarks.families")
logger.propagate = False
logger.addHandler(logging.NullHandler())

WIDTH, HEADS, LAYERS, ROWS, LENGTH = 768, 12, 6, 8, 128


class Family(nn.Module):
    """A model; `settle` is what the caller of its twin does with the result, after the graph."""

    trains = False

    def settle(self, result: Any) -> Any:
        return result


class Attention(nn.Module):
    """Self-attention and a feed-forward part, each with its residual and norm."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.first_norm, self.second_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor, phases: torch.Tensor | None = None) -> torch.Tensor:
        rows, length, _ = x.shape
        parts = self.project(x).view(rows, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.transpose(1, 3).unbind(2)
        if phases is not None:
            query, key = query * phases.cos(), key * phases.cos()
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = self.first_norm(x + self.merge(mixed.transpose(1, 2).reshape(x.shape)))
        return self.second_norm(x + self.down(F.gelu(self.up(x))))


class Stack(Family):
    """Some such layers; half precision on a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(LAYERS))

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return (torch.randn(ROWS, LENGTH, WIDTH),)


class Clamped(Stack):
    """As the encoder of BART: every layer clamps what half precision cannot hold."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            if torch.isinf(x).any() or torch.isnan(x).any():
                limit = torch.finfo(x.dtype).max - 1000
                x = torch.clamp(x, min=-limit, max=limit)
        return x


class ClampedTwin(Clamped):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            limit = torch.finfo(x.dtype).max - 1000
            is_bad = torch.isinf(x).any() | torch.isnan(x).any()
            x = torch.where(is_bad, torch.clamp(x, min=-limit, max=limit), x)
        return x


class Warned(Stack):
    """As the decoders of T5, Whisper and BART: a message about a deprecated form of the cache."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers[0](x)
        logger.warning("Passing a tuple as a cache is deprecated: %s layers.", len(self.layers))
        for layer in self.layers[1:]:
            x = layer(x)
        return x


class WarnedTwin(Warned):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x

    def settle(self, result: Any) -> Any:
        logger.warning("Passing a tuple as a cache is deprecated: %s layers.", len(self.layers))
        return result


class Compared(Stack):
    """As MoLFormer: every layer compares masks and raises if it cannot go on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("expected", torch.ones(ROWS, LENGTH, dtype=torch.bool))

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return torch.randn(ROWS, LENGTH, WIDTH), torch.ones(ROWS, LENGTH, dtype=torch.bool)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            if not torch.equal(mask, self.expected):
                raise RuntimeError("This attention has no masks.")
            x = layer(x)
        return x


class ComparedTwin(Compared):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> Any:
        is_wrong = (mask != self.expected).any()
        for layer in self.layers:
            x = layer(x)
        return x, is_wrong

    def settle(self, result: Any) -> Any:
        value, is_wrong = result
        if is_wrong:
            raise RuntimeError("This attention has no masks.")
        return value


class LongContext(Stack):
    """As Phi with longrope: the frequencies depend on the largest position."""

    def __init__(self) -> None:
        super().__init__()
        width = WIDTH // HEADS
        self.register_buffer("short", torch.linspace(1, 0.001, width))
        self.register_buffer("long", torch.linspace(0.5, 0.0005, width))

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return torch.randn(ROWS, LENGTH, WIDTH), torch.arange(LENGTH)

    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            frequencies = self.short
            if positions.max() + 1 > 4096:
                frequencies = self.long
            x = layer(x, torch.outer(positions.to(x.dtype), frequencies))
        return x


class LongContextTwin(LongContext):
    def forward(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            frequencies = torch.where(positions.max() + 1 > 4096, self.long, self.short)
            x = layer(x, torch.outer(positions.to(x.dtype), frequencies))
        return x


class PolicyStep(Stack):
    """As a robot's policy: a training step whose forward pass reads its losses for a log."""

    trains = True

    def __init__(self) -> None:
        super().__init__()
        self.act, self.style = nn.Linear(WIDTH, 14), nn.Linear(WIDTH, 64)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return torch.randn(ROWS, LENGTH, WIDTH), torch.randn(ROWS, LENGTH, 14)

    def losses(self, x: torch.Tensor, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for layer in self.layers:
            x = layer(x)
        mean, spread = self.style(x.mean(1)).chunk(2, -1)
        kl = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(-1).mean()
        return F.l1_loss(self.act(x), actions), kl

    def forward(self, x: torch.Tensor, actions: torch.Tensor) -> Any:
        l1, kl = self.losses(x, actions)
        read = {"l1_loss": l1.item()}
        read["kld_loss"] = kl.item()
        return l1 + 10 * kl, read


class PolicyStepTwin(PolicyStep):
    def forward(self, x: torch.Tensor, actions: torch.Tensor) -> Any:
        l1, kl = self.losses(x, actions)
        return l1 + 10 * kl, torch.stack((l1.detach(), kl.detach()))

    def settle(self, result: Any) -> Any:
        loss, both = result
        l1, kl = both.tolist()
        return loss, {"l1_loss": l1, "kld_loss": kl}


class PerMolecule(Family):
    """As an interatomic potential: how many molecules there are is read from the data."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(16, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, 1)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return torch.randn(ROWS * LENGTH, 16), torch.arange(ROWS * LENGTH) // LENGTH

    def forward(self, atoms: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.embed(atoms))
        for layer in self.layers:
            count = int(owners[-1].item()) + 1
            means = torch.zeros(count, WIDTH, dtype=x.dtype, device=x.device)
            x = x + F.silu(layer(x)) + means.index_add(0, owners, x)[owners] / LENGTH
        energies = torch.zeros(count, 1, dtype=x.dtype, device=x.device)
        return energies.index_add(0, owners, self.out(x))


class PerMoleculeTwin(PerMolecule):
    """The caller counts the molecules once, before the graph."""

    def prepare(self, atoms: torch.Tensor, owners: torch.Tensor) -> tuple[Any, ...]:
        return atoms, owners, int(owners[-1].item()) + 1

    def forward(self, atoms: torch.Tensor, owners: torch.Tensor, count: int) -> torch.Tensor:
        x = F.silu(self.embed(atoms))
        for layer in self.layers:
            means = torch.zeros(count, WIDTH, dtype=x.dtype, device=x.device)
            x = x + F.silu(layer(x)) + means.index_add(0, owners, x)[owners] / LENGTH
        energies = torch.zeros(count, 1, dtype=x.dtype, device=x.device)
        return energies.index_add(0, owners, self.out(x))


FAMILIES: dict[str, type[Family]] = {
    "clamped layers (BART)": Clamped,
    "message in a decoder (T5, Whisper)": Warned,
    "compared masks (MoLFormer)": Compared,
    "frequencies by length (Phi longrope)": LongContext,
    "losses read in training (robot policy)": PolicyStep,
    "sizes read from data (AIMNet)": PerMolecule,
}
"""By name, the class; its twin's name is the same and "Twin"."""
