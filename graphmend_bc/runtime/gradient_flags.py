"""Tensors that come to require a gradient before a graph, because the frame says so."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field

import torch


@dataclass(slots=True, eq=False)
class GradientFlags:
    """What one frame sets `requires_grad` of before its graph; nothing is kept alive by it."""

    _changed: threading.local = field(default_factory=threading.local)

    def begin(self) -> None:
        """A call of the frame begins."""
        self._changed.tensors = []

    def set(self, tensor: torch.Tensor) -> None:
        """Have a tensor require a gradient.

        Args:
            tensor: requires none so far, and could.
        """
        tensor.requires_grad_()
        self._changed.tensors.append(weakref.ref(tensor))

    def roll_back(self) -> None:
        """Have the tensors of the call that is running require none again."""
        tensors, self._changed.tensors = getattr(self._changed, "tensors", []), []
        for known in tensors:
            if (tensor := known()) is not None:
                tensor.requires_grad_(False)
