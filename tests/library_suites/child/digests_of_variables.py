"""What a test's variables hold, bit by bit, as a short text for each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy
import torch

_DEPTH = 6
_MOST = 2000
"""How deep objects are looked into, and how many parts of one variable."""


def digests(variables: Mapping[str, Any]) -> dict[str, str]:
    """A digest of each variable; equal ones have equal tensors, numbers and texts in equal places.

    Args:
        variables: by name. Addresses, functions, classes and Python's modules do not count.
    """
    return {name: _digest(value) for name, value in variables.items()}


def _digest(value: Any) -> str:
    made = hashlib.blake2b(digest_size=6)
    for number, part in enumerate(_parts(value, _DEPTH, set())):
        if number == _MOST:
            break
        made.update(part)
    return made.hexdigest()


def _parts(value: Any, depth: int, seen: set[int]) -> Iterator[bytes]:
    kind = type(value).__qualname__
    if isinstance(value, torch.Tensor):
        yield from _tensor(value, depth, seen)
    elif isinstance(value, numpy.ndarray) and value.dtype != object:
        yield f"{value.dtype}{value.shape}".encode() + value.tobytes()
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield f"{kind}:{value!r}".encode()
    elif depth and id(value) not in seen and not isinstance(value, ModuleType):
        seen.add(id(value))
        yield kind.encode()
        for name, part in _held(value):
            yield name.encode()
            yield from _parts(part, depth - 1, seen)


def _tensor(value: torch.Tensor, depth: int, seen: set[int]) -> Iterator[bytes]:
    """Its bits, and those of its gradient."""
    with torch.no_grad():
        yield f"{value.dtype}{tuple(value.shape)}{value.requires_grad}{value.layout}".encode()
        if type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided:
            yield f"{value.stride()}".encode()
            yield value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        if value.is_leaf and value.grad is not None and depth:
            yield from _tensor(value.grad, 0, seen)


def _held(value: Any) -> Iterator[tuple[str, Any]]:
    """What a container or an object holds. Sets have no order that can be relied on."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield repr(key) if isinstance(key, str | int) else "", part
    elif isinstance(value, list | tuple):
        yield from (("", part) for part in value)
    elif not callable(value) or isinstance(value, torch.nn.Module):
        yield from vars(value).items() if hasattr(value, "__dict__") else ()
