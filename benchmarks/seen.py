"""What a user can see of a call, as plain values that are compared bit for bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

Seen = dict[str, Any]
Calls = Sequence[Seen]


def leaves_of(value: Any, path: str, above: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Paths and leaves of nested containers and of objects that hold tensors, such as caches."""
    if id(value) in above:
        return
    above = (*above, id(value))
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves_of(item, f"{path}.{key}", above)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield f"type of {path}", f"{type(value).__name__} of {len(value)}"
        for number, item in enumerate(value):
            yield from leaves_of(item, f"{path}[{number}]", above)
    elif _opens(value):
        yield f"type of {path}", type(value).__qualname__
        for name, item in vars(value).items():
            yield from leaves_of(item, f"{path}.{name}", above)
    elif value is None or isinstance(value, (bool, int, float, str, torch.Tensor, np.ndarray)):
        yield path, value
    else:
        yield path, type(value).__qualname__


def _opens(value: Any) -> bool:
    """Whether an output is looked into: caches of transformers, data classes."""
    of_transformers = type(value).__module__.startswith("transformers")
    return (of_transformers or is_dataclass(value)) and hasattr(value, "__dict__")


def state_of(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Paths and leaves of what an object keeps: attributes, parameters, their gradients."""
    yield from _kept_by(value, path, {})


def _kept_by(value: Any, path: str, met: dict[int, Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, PLAIN):
        yield path, value
        if isinstance(value, torch.Tensor) and value.is_leaf:
            yield f"gradient of {path}", value.grad
        return
    if id(value) in met and not isinstance(value, tuple):  # two equal tuples may be one or not
        return
    met[id(value)] = value  # also keeps it alive, so that no other object has its id
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, (list, tuple, deque)):
        parts = list(enumerate(value))
        yield f"type of {path}", f"{type(value).__name__} of {len(parts)}"
    elif isinstance(value, (torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)):
        parts = list(value.state_dict().items())
    elif _has_state(value):
        parts = [(name, part) for name, part in vars(value).items() if name not in _OF_ALL_MODULES]
    else:
        parts = []
    for name, part in parts:
        yield from _kept_by(part, f"{path}.{name}", met)


def _has_state(value: Any) -> bool:
    """Whether an object has attributes that a program can see change; torch's own are not told."""
    if isinstance(value, torch.nn.Module):
        return True
    opaque = isinstance(value, (type, ModuleType, *_FUNCTIONS))
    return not opaque and hasattr(value, "__dict__") and not _is_of_torch(value)


def _is_of_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("torch", "weakref", "functools")


_FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType)
PLAIN = (type(None), bool, int, float, complex, str, torch.Tensor, np.ndarray)
_OF_ALL_MODULES = {*vars(torch.nn.Module()), "_is_torch_compile"}  # `torch.compile` sets the last
_OF_ALL_MODULES -= {"training", "_parameters", "_buffers", "_modules"}


def kept(leaf: Any) -> Any:
    return leaf.detach().clone().requires_grad_(leaf.requires_grad) if _clones(leaf) else leaf


def _clones(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor)


def aliasing(leaves: dict[str, Any]) -> list[list[str]]:
    """Which tensors share memory."""
    groups: dict[int, list[str]] = {}
    for path, leaf in leaves.items():
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            groups.setdefault(leaf.untyped_storage().data_ptr(), []).append(path)
    return sorted(group for group in groups.values() if len(group) > 1)


# Comparing


def differences(expected: Calls, found: Calls) -> list[str]:
    """What of some calls differs from others; one line for each path of the first bad call."""
    for number, (one, other) in enumerate(zip(expected, found, strict=False), 1):
        pairs = {
            path: (one.get(path, "(missing)"), other.get(path, "(missing)"))
            for path in dict.fromkeys([*one, *other])
        }
        lines = [
            f"call {number}: {path}: {_how(*pair)}"
            for path, pair in pairs.items()
            if not same(*pair)
        ]
        if lines:
            return lines
    return []


def same(one: Any, other: Any) -> bool:
    """Equality that tensors meet in kind, layout and every bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return _facts(one) == _facts(other) and _bits(one) == _bits(other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.tobytes() == other.tobytes()
    return bool(one == other) or (one != one and other != other)


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad


def _bits(tensor: torch.Tensor) -> bytes:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _how(one: Any, other: Any) -> str:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if _facts(one) != _facts(other):
            return f"{_facts(one)} is {_facts(other)}"
        off = (one.detach().double() - other.detach().double()).abs().max().item()
        return f"off by up to {off:.3g}"
    return f"{str(one)[:120]} is {str(other)[:120]}"
