"""In which situation a frame is compiled: what rules ask of its inputs, but for their sizes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import torch


def situation_of(values: Mapping[str, object]) -> Hashable:
    """Equal for calls of a frame of which the same is true, as far as its inputs tell.

    Args:
        values: its local variables by name, as it begins.

    Example:
        >>> situation_of({"x": torch.ones(2)}) == situation_of({"x": torch.ones(3)})
        True
        >>> situation_of({"x": torch.ones(2)}) == situation_of({"x": torch.ones(2, 2)})
        False
    """
    modes = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    devices = ("cpu", "cuda")
    casts = tuple(torch.is_autocast_enabled(device) for device in devices)
    return modes, casts, tuple((name, _kind(value)) for name, value in values.items())


def _kind(value: object) -> Hashable:
    cls = type(value)
    name = f"{cls.__module__}.{cls.__qualname__}"  # the class itself would live on
    if isinstance(value, torch.Tensor):
        kind = (value.dtype, value.device, value.layout, value.dim())
        return name, kind, value.requires_grad, value.is_leaf
    if isinstance(value, torch.nn.Module):
        return name, value.training
    return name
