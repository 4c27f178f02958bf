"""The writers of tensorboard and tensorboardX only read the numbers that they are given."""

from __future__ import annotations

from typing import Final

from graphmend_bc.catalog.observers import INLINED, Observer, each
from graphmend_bc.extension import Extension

_METHODS = ("scalar", "scalars", "histogram", "text", "image", "images", "tensor")
_WRITERS = ("torch.utils.tensorboard.writer", "tensorboardX.writer")

EXTENSION: Final = Extension(
    "tensorboard",
    observers={
        place: observer
        for module in _WRITERS
        for place, observer in each(
            module, "SummaryWriter.add_", _METHODS, Observer(INLINED, gradients="numbers")
        ).items()
    },
)
