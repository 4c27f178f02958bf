"""Timing one call of a function: the first of a compiled version, and those at rest."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

_COMPILING = 3
"""Calls after the first in which something is compiled, before it is taken that all do so."""

_QUIET = 3
"""Calls in a row without a compilation after which a function is at rest."""

_MOST = 5_000
"""Calls at rest of one version."""

_SHORT_NS = 10_000_000
"""Calls shorter than this are made several at a time, so that caches of the machine fill."""

_BATCH = 10


@dataclass(slots=True)
class Rest:
    """Calls at rest of one compiled version, and eager calls that took turns with them.

    Attributes:
        own_ns: nanoseconds of each call of the compiled version.
        eager_ns: of each eager call but the first.
        first_eager_ns: of the first eager call.
        is_settled: False if something was compiled in these calls all the same, or in too many
            before them.
    """

    own_ns: list[int] = field(default_factory=list)
    eager_ns: list[int] = field(default_factory=list)
    first_eager_ns: int = 0
    is_settled: bool = True


@dataclass(slots=True)
class CallTimer:
    """Makes one call again and again, each time on copies of its arguments.

    Args:
        function: what is called.
        args, kwargs: the arguments. Their tensors are copied for each call.
        seconds: for how long calls at rest of one compiled version are made, eager ones included.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    seconds: float

    def once(self, called: Callable[..., Any]) -> int:
        """Make one call, which is over once the device has done what it was asked.

        Args:
            called: the function, or a compiled version of it.

        Returns:
            Nanoseconds.
        """
        args, kwargs = copies((self.args, self.kwargs))
        wait = _wait_for_device()
        wait()
        begun = time.perf_counter_ns()
        called(*args, **kwargs)
        wait()
        return time.perf_counter_ns() - begun

    def at_rest(self, compiled: Callable[..., Any], frames: Sized) -> Rest:
        """Make calls of a version that was called once, in turns with eager ones.

        Args:
            compiled: the version.
            frames: grows by each frame that is compiled.
        """
        settled = self._settle(compiled, frames)
        deadline = time.perf_counter() + (self.seconds if settled else 0)
        rest, before = Rest(), len(frames)
        rest.first_eager_ns = self._eager(1)[0]
        batch = _BATCH if rest.first_eager_ns < _SHORT_NS else 1
        while not rest.own_ns or (time.perf_counter() < deadline and len(rest.own_ns) < _MOST):
            rest.own_ns += [self.once(compiled) for _ in range(batch)]
            rest.eager_ns += self._eager(batch)
        rest.is_settled = settled and len(frames) == before
        return rest

    def _eager(self, count: int) -> list[int]:
        """Calls in eager Python, in which what the function itself compiles is not compiled."""
        with torch.compiler.set_stance("force_eager"):
            return [self.once(self.function) for _ in range(count)]

    def _settle(self, compiled: Callable[..., Any], frames: Sized) -> bool:
        """Call until nothing is compiled any more; False if that takes too many calls."""
        deadline = time.perf_counter() + self.seconds
        quiet = compiling = 0
        while compiling < _COMPILING:
            before = len(frames)
            self.once(compiled)
            is_quiet = len(frames) == before
            quiet = quiet + 1 if is_quiet else 0
            compiling += not is_quiet
            if quiet == _QUIET or (quiet and time.perf_counter() > deadline):
                return True
        return False

    def varies(self) -> bool:
        """Whether two eager calls with the same random numbers give different results."""
        generators = _generators()
        first = self._result()
        _set_generators(generators)
        return not _same(first, self._result())

    def _result(self) -> list[Any]:
        args, kwargs = copies((self.args, self.kwargs))
        with torch.compiler.set_stance("force_eager"):
            return copies(tree_leaves(self.function(*args, **kwargs)))  # type: ignore[no-any-return]


def copies(values: Any) -> Any:
    """The same structure with copies of its tensors, gradients wanted where they were."""

    def clone(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(clone, values)


def _wait_for_device() -> Callable[[], object]:
    """Waits for the accelerator if the process uses one."""
    device: Any = torch.get_device_module()
    started = getattr(device, "is_initialized", lambda: True)
    return device.synchronize if started() else lambda: None


def _generators() -> tuple[Any, ...]:
    """The states of all generators that a program draws from without naming one."""
    started = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    cuda = torch.cuda.get_rng_state_all() if started else []
    return torch.get_rng_state(), cuda, random.getstate(), np.random.get_state()


def _set_generators(states: tuple[Any, ...]) -> None:
    own, cuda, of_python, of_numpy = states
    torch.set_rng_state(own)
    torch.cuda.set_rng_state_all(cuda)
    random.setstate(of_python)
    np.random.set_state(of_numpy)


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Whether results are equal, as far as they are tensors, numbers and text."""
    return len(first) == len(second) and all(map(_equal, first, second))


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if (one.shape, one.dtype) != (other.shape, other.dtype):
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    is_plain = isinstance(one, (int, float, complex, str, bytes))
    return type(one) is type(other) and (not is_plain or one == other or one != one)
