"""Which torch and Python this release knows."""

from __future__ import annotations

import sys

import torch

from graphmend_bc.code import facts

TORCH_SUPPORTED = ((2, 11), (2, 12), (2, 13), (2, 14), (2, 15))


class UnsupportedVersionError(RuntimeError):
    """This torch or Python is not known; `graphmend_bc.config.force = True` tries all the same."""


class MissingSeamError(UnsupportedVersionError):
    """This torch lacks something that is replaced while mending is on; nothing was switched on.

    Args:
        name: what it lacks, as its dotted name.
    """

    def __init__(self, name: str) -> None:
        known = f"{_show(TORCH_SUPPORTED[0])} to {_show(TORCH_SUPPORTED[-1])}"
        super().__init__(
            f"graphmend_bc cannot mend with torch {torch.__version__}, which has no {name}; "
            f"nothing was switched on. Install torch {known}."
        )


def check_versions() -> None:
    """Make sure that this torch and this Python are the ones that this release was written for.

    Raises:
        UnsupportedVersionError: with the version found and the versions that are known, or because
            this Python is a free-threaded build.
    """
    python = sys.version_info[:2]
    if python not in facts.SUPPORTED:
        raise UnsupportedVersionError(_sentence("Python", python, facts.SUPPORTED))
    if facts.is_free_threaded():
        raise UnsupportedVersionError(
            f"graphmend_bc relies on the GIL, which this free-threaded build of Python "
            f"{_show(python)} lacks: use the build with the GIL, python{_show(python)}."
        )
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found not in TORCH_SUPPORTED:
        raise UnsupportedVersionError(_sentence("torch", found, TORCH_SUPPORTED))


def _sentence(what: str, found: tuple[int, ...], known: tuple[tuple[int, ...], ...]) -> str:
    return (
        f"graphmend_bc does not know {what} {_show(found)}; it supports {what} "
        f"{_show(known[0])} to {_show(known[-1])}. Install one of these, or set "
        "graphmend_bc.config.force = True to try all the same."
    )


def _show(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
