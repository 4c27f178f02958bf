"""Roll back what a graph did: its writes to inputs, its random draws, the modes it switched."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import attention
from torch.nn.attention import SDPBackend

from graphmend_bc.runtime.forks import lock_over_forks
from graphmend_bc.runtime.told_once import told_once


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """What has to be remembered before a graph runs.

    Attributes:
        inputs: positions of the graph's inputs whose memory it changes.
        exchanged: positions of those that it gives other memory.
        draws: devices whose default generators it draws from.
        switches: True if it switches autocast or the kernels of attention.
        is_nothing: True if it leaves nothing behind but its results. Asked in every call.
    """

    inputs: tuple[int, ...] = ()
    draws: tuple[torch.device, ...] = ()
    switches: bool = False
    exchanged: tuple[int, ...] = ()
    is_nothing: bool = field(init=False)

    def __post_init__(self) -> None:
        changes = self.inputs or self.draws or self.switches or self.exchanged
        object.__setattr__(self, "is_nothing", not changes)

    @property
    def is_shared(self) -> bool:
        """True if other threads may change what the graph changes."""
        return bool(self.inputs or self.draws or self.exchanged)

    def alone(self, args: Sequence[Any]) -> AbstractContextManager[object]:
        """Keep other threads' graphs from what would be put back.

        A write or a draw of theirs between `remember` and `restore` would be lost.

        Args:
            args: the graph's arguments.
        """
        changed = self.inputs + self.exchanged
        if not changed:
            return _STRIPES[0] if self.draws else nullcontext()
        try:
            places = {_stripe(args[position]) for position in changed}
        except Exception as error:
            told_once("lets no graph run beside another", error)
            places = set(range(len(_STRIPES)))
        if self.draws:
            places.add(0)
        return _STRIPES[places.pop()] if len(places) == 1 else _all_of(places)

    def remember(self, args: Sequence[Any]) -> Before:
        """Remember; to be called right before the graph runs.

        Args:
            args: the graph's arguments.
        """
        layers = torch._C._functorch.get_dynamic_layer_stack_depth()
        grad = torch.is_grad_enabled()
        if self.is_nothing and not layers:
            return _GRAD_ON if grad else _GRAD_OFF
        before = Before(grad, _Switches.now() if self.switches else None, layers)
        if self.draws:
            before.generators = [(g := _generator(d), g.get_state()) for d in self.draws]
        if self.inputs:
            tensors = [args[position] for position in self.inputs]
            # In another call they may share memory, or not.
            memories = {t.untyped_storage().data_ptr(): t for t in tensors}
            before.versions = [(t, _version(t)) for t in tensors]
            before.memory = [(t, _copy(t)) for t in memories.values()]
        if self.exchanged:
            tensors = [args[position] for position in self.exchanged]
            before.versions = [*before.versions, *((t, _version(t)) for t in tensors)]
            before.data = [(t, t.data) for t in tensors]
        return before


@contextmanager
def _all_of(places: Collection[int]) -> Iterator[None]:
    with ExitStack() as held:
        for place in sorted(places):
            held.enter_context(_STRIPES[place])
        yield


@dataclass(slots=True)
class Before:
    """How things were before a graph ran.

    Attributes:
        grad: whether grad mode was on.
        switches: further modes; None if the graph leaves them alone.
        layers: how many levels of torch.func were entered.
        generators: random generators with their states.
        versions: tensors with their version counters.
        memory: tensors with copies of their storages.
        data: tensors with others that have their memory.
    """

    grad: bool
    switches: _Switches | None = None
    layers: int = 0
    generators: Sequence[tuple[torch.Generator, torch.Tensor]] = ()
    versions: Sequence[tuple[torch.Tensor, int | None]] = ()
    memory: Sequence[tuple[torch.Tensor, torch.Tensor | torch.UntypedStorage]] = ()
    data: Sequence[tuple[torch.Tensor, torch.Tensor]] = ()

    def restore_modes(self) -> None:
        """Make the modes as they were; what was written and drawn stays."""
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(self.layers)
        torch.set_grad_enabled(self.grad)
        if self.switches is not None:
            self.switches.restore()

    def restore(self) -> None:
        """Make things as they were."""
        self.restore_modes()
        for generator, state in self.generators:
            generator.set_state(state)
        for tensor, data in self.data:
            tensor.data = data
        for tensor, copy in self.memory:
            content = copy.untyped_storage() if isinstance(copy, torch.Tensor) else copy
            tensor.untyped_storage().copy_(content)
        for tensor, version in self.versions:
            if version is not None:
                torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


@dataclass(frozen=True, slots=True)
class _Switches:
    """Modes that a graph may leave switched if it raises between on and off.

    Attributes:
        autocast: its settings, by device type.
        nesting: how many autocast contexts are entered; the last one to be left empties the cache
            of cast weights.
        attention: the kernels that attention may use, by priority.
    """

    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    nesting: int
    attention: list[SDPBackend]

    @classmethod
    def now(cls) -> _Switches:
        """The modes as they are."""
        settings = tuple(
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in ("cpu", "cuda")
        )
        return cls(settings, _nesting(), attention._cur_sdpa_kernel_backends(with_priority=True))

    def restore(self) -> None:
        """Make the modes as they were."""
        for device, enabled, dtype in self.autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        while _nesting() > self.nesting:
            if torch.autocast_decrement_nesting() == 0:
                torch.clear_autocast_cache()
        attention._sdpa_kernel(self.attention, set_priority=True)


_STRIPES = tuple(lock_over_forks() for _ in range(64))
"""Locks on memory by its address, taken in this order; the first one is for the generators too."""


def _stripe(tensor: torch.Tensor) -> int:
    return (tensor.untyped_storage().data_ptr() >> 6) % len(_STRIPES)


def _nesting() -> int:
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; inference tensors do not count that."""
    return None if tensor.is_inference() else tensor._version


_GRAD_ON, _GRAD_OFF = Before(True), Before(False)


def _copy(tensor: torch.Tensor) -> torch.Tensor | torch.UntypedStorage:
    """A copy of a tensor's storage; a tensor that is all of it is cloned, which costs less."""
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
