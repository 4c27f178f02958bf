"""Families of models that break, reduced to what breaks them, each beside its hand-fixed twin.

They need torch alone, so they run where transformers does not.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

logger = logging.getLogger("benchmarks.families")
logger.propagate = False
logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model and its inputs."""

    width: int
    heads: int
    layers: int
    rows: int
    length: int


BASE = Sizes(width=768, heads=12, layers=6, rows=8, length=128)
"""Those of a base model."""

SMALL = Sizes(width=128, heads=4, layers=3, rows=2, length=32)
"""For a CPU: a call takes milliseconds."""


class Family(nn.Module):
    """A model; `settle` is what the caller of its twin does with the result, after the graph.

    Attributes:
        trains: it is a training step.
        may_train: a training step of it is measured as well.
    """

    trains = False
    may_train = False

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes

    def settle(self, result: Any) -> Any:
        return result


class Attention(nn.Module):
    """Self-attention and a feed-forward part, each with its residual and norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, phases: torch.Tensor | None = None) -> torch.Tensor:
        rows, length, width = x.shape
        parts = self.project(x).view(rows, length, 3, self.heads, width // self.heads)
        query, key, value = parts.transpose(1, 3).unbind(2)
        if phases is not None:
            query, key = query * phases.cos(), key * phases.cos()
        mixed = F.scaled_dot_product_attention(query, key, value)
        x = self.first_norm(x + self.merge(mixed.transpose(1, 2).reshape(x.shape)))
        return self.second_norm(x + self.down(F.gelu(self.up(x))))


class Stack(Family):
    """Some such layers; half precision on a GPU."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        layers = (Attention(sizes.width, sizes.heads) for _ in range(sizes.layers))
        self.layers = nn.ModuleList(layers)

    def states(self) -> torch.Tensor:
        """Hidden states."""
        return torch.randn(self.sizes.rows, self.sizes.length, self.sizes.width)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return (self.states(),)


class Clamped(Stack):
    """As the encoder of BART: every layer clamps what half precision cannot hold."""

    may_train = True

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

    may_train = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        ones = torch.ones(sizes.rows, sizes.length, dtype=torch.bool)
        self.register_buffer("expected", ones)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return self.states(), torch.ones(self.sizes.rows, self.sizes.length, dtype=torch.bool)

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

    may_train = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        width = sizes.width // sizes.heads
        self.register_buffer("short", torch.linspace(1, 0.001, width))
        self.register_buffer("long", torch.linspace(0.5, 0.0005, width))

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return self.states(), torch.arange(self.sizes.length)

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

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.act, self.style = nn.Linear(sizes.width, 14), nn.Linear(sizes.width, 64)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        return self.states(), torch.randn(self.sizes.rows, self.sizes.length, 14)

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

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        width = sizes.width
        self.embed = nn.Linear(16, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(sizes.layers))
        self.out = nn.Linear(width, 1)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        atoms = self.sizes.rows * self.sizes.length
        return torch.randn(atoms, 16), torch.arange(atoms) // self.sizes.length

    def forward(self, atoms: torch.Tensor, owners: torch.Tensor) -> torch.Tensor:
        x = F.silu(self.embed(atoms))
        for layer in self.layers:
            count = int(owners[-1].item()) + 1
            means = torch.zeros(count, x.shape[1], dtype=x.dtype, device=x.device)
            x = x + F.silu(layer(x)) + means.index_add(0, owners, x)[owners] / 100
        energies = torch.zeros(count, 1, dtype=x.dtype, device=x.device)
        return energies.index_add(0, owners, self.out(x))


class PerMoleculeTwin(PerMolecule):
    """The caller counts the molecules once, before the graph."""

    def prepare(self, atoms: torch.Tensor, owners: torch.Tensor) -> tuple[Any, ...]:
        return atoms, owners, int(owners[-1].item()) + 1

    def forward(self, atoms: torch.Tensor, owners: torch.Tensor, count: int) -> torch.Tensor:
        x = F.silu(self.embed(atoms))
        for layer in self.layers:
            means = torch.zeros(count, x.shape[1], dtype=x.dtype, device=x.device)
            x = x + F.silu(layer(x)) + means.index_add(0, owners, x)[owners] / 100
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
