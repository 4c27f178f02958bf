"""Places in programs that settings leave unmended: `config.sites_off` and `config.sites_only`."""

from __future__ import annotations

import os
from collections.abc import Collection

from graphmend_bc import config


def left_by(filename: str, lineno: int) -> str:
    """The setting that leaves a line unmended; empty if none does.

    Args:
        filename: of the code object.
        lineno: of the instruction.

    Example:
        >>> with config.patch(sites_off=("model.py:12",)):
        ...     left_by("/home/me/model.py", 12), left_by("/home/me/model.py", 13)
        ('sites_off', '')
    """
    off, only = config.sites_off, config.sites_only
    if off and _is_among(off, filename, lineno):
        return "sites_off"
    return "sites_only" if only and not _is_among(only, filename, lineno) else ""


def _is_among(places: Collection[str], filename: str, lineno: int) -> bool:
    place = f"{filename}:{lineno}"
    return place in places or any(place.endswith(f"{os.sep}{known}") for known in places)
