"""What a program comes to differs between releases of torch, where stock itself does."""

from __future__ import annotations

import linecache
from typing import Any

import torch

_FOUND = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])

STOCK_RAISES = "This torch raises without mending, too."
STOCK_IS_WRONG = "This torch gives another result than eager Python without mending, too."


def since(major: int, minor: int) -> bool:
    """True if torch is of this release or of a later one."""
    return (major, minor) <= _FOUND


def executed(source: str, filename: str, scope: dict[str, Any]) -> None:
    """Run a module's source, so that its functions are compiled as those of a file are.

    torch 2.11 puts a frame of its own around a function whose source is nowhere to be found.

    Args:
        source: of the module; its first line is line 1.
        filename: what its code objects say they are from.
        scope: the module's globals.
    """
    if not since(2, 13):
        lines = source.splitlines(keepends=True)
        linecache.cache[filename] = len(source), None, lines, filename
    exec(compile(source, filename, "exec"), scope)
