"""What a program comes to differs between releases of torch, where stock itself does."""

from __future__ import annotations

import torch

_FOUND = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def since(major: int, minor: int) -> bool:
    """True if torch is of this release or of a later one."""
    return (major, minor) <= _FOUND
