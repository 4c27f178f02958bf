"""Take back what a graph did: its writes to inputs, its random draws, the modes it switched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Undo:
    """What has to be remembered before a graph runs.

    Attributes:
        inputs: positions of the graph's inputs whose memory it changes.
        draws: devices whose default generators it draws from.
        switches: True if it switches autocast on or off.
    """

    inputs: tuple[int, ...] = ()
    draws: tuple[torch.device, ...] = ()
    switches: bool = False

    @property
    def is_nothing(self) -> bool:
        """True if the graph leaves nothing behind but its results."""
        return not (self.inputs or self.draws or self.switches)

    def remember(self, args: Sequence[Any]) -> Before:
        """Remember; to be called right before the graph runs.

        Args:
            args: the graph's arguments.
        """
        if not (self.inputs or self.draws or self.switches):
            return _GRAD_ON if torch.is_grad_enabled() else _GRAD_OFF
        tensors = [args[position] for position in self.inputs]
        return Before(
            torch.is_grad_enabled(),
            _autocast() if self.switches else (),
            [(g := _generator(device), g.get_state()) for device in self.draws],
            [(t, t._version, _copy(t)) for t in tensors],
        )


@dataclass(frozen=True, slots=True)
class Before:
    """How things were before a graph ran.

    Attributes:
        grad: whether grad mode was on.
        autocast: autocast's settings, by device type.
        generators: random generators with their states.
        memory: tensors with their version counters and copies of their storages.
    """

    grad: bool
    autocast: tuple[tuple[str, bool, torch.dtype], ...] = ()
    generators: Sequence[tuple[torch.Generator, torch.Tensor]] = ()
    memory: Sequence[tuple[torch.Tensor, int, torch.Tensor | torch.UntypedStorage]] = ()

    def restore(self) -> None:
        """Make things as they were."""
        torch.set_grad_enabled(self.grad)
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        for generator, state in self.generators:
            generator.set_state(state)
        for tensor, version, copy in self.memory:
            content = copy.untyped_storage() if isinstance(copy, torch.Tensor) else copy
            tensor.untyped_storage().copy_(content)
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


_GRAD_ON, _GRAD_OFF = Before(True), Before(False)


def _copy(tensor: torch.Tensor) -> torch.Tensor | torch.UntypedStorage:
    """A copy of a tensor's storage; a tensor that is all of it is copied with less ado."""
    storage = tensor.untyped_storage()
    if (
        tensor.is_contiguous()
        and tensor.nbytes == storage.nbytes()
        and not (tensor.is_conj() or tensor.is_neg())
    ):
        return tensor.detach().clone()
    copy: torch.UntypedStorage = storage.clone()  # type: ignore[no-untyped-call]
    return copy


def _generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        torch.cuda.init()  # type: ignore[no-untyped-call]
        index = torch.cuda.current_device() if device.index is None else device.index
        return torch.cuda.default_generators[index]
    return torch.default_generator


def _autocast() -> tuple[tuple[str, bool, torch.dtype], ...]:
    return tuple(
        (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
        for device in ("cpu", "cuda")
    )
