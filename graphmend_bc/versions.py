"""Which torch and Python this release knows."""

from __future__ import annotations

import logging
import platform
import sys
from collections.abc import Mapping
from functools import cache

import torch

import graphmend_bc
from graphmend_bc import config
from graphmend_bc.code import facts

log = logging.getLogger("graphmend_bc")

TORCH_SUPPORTED = ((2, 11), (2, 13), (2, 14), (2, 15))


class UnsupportedVersionError(RuntimeError):
    """Nothing can be mended with this torch or this Python.

    Example:
        >>> import graphmend_bc
        >>> try:
        ...     graphmend_bc.enable().remove()
        ... except graphmend_bc.UnsupportedVersionError as error:
        ...     print(f"The program runs as it is: {error}")
    """


class MissingSeamError(UnsupportedVersionError):
    """This torch lacks what every mend rests on, or goes around it; nothing was switched on.

    Args:
        lost: what is wrong with it, such as "has no torch.f".
    """

    def __init__(self, lost: str) -> None:
        self.lost = lost
        super().__init__(
            f"graphmend_bc cannot mend with torch {torch.__version__}, which {lost}; "
            f"nothing was switched on. Install torch {_range(TORCH_SUPPORTED)}."
        )


def check_versions() -> None:
    """Make sure that something can be mended with this torch and this Python.

    A torch that is newer than the newest one known is refused only if `config.strict_versions`
    says so.

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
    found = _torch()
    is_newer = found > TORCH_SUPPORTED[-1]
    if found not in TORCH_SUPPORTED and (config.strict_versions or not is_newer):
        raise UnsupportedVersionError(_sentence("torch", found, TORCH_SUPPORTED))


def refusal() -> str:
    """Why `enable()` refuses this Python or torch; empty if it does not before it tries."""
    try:
        check_versions()
    except UnsupportedVersionError as error:
        return str(error)
    return ""


def told_once(error: UnsupportedVersionError) -> str:
    """Log once that the program runs as it is; returns why."""
    _warn(f"{error} Until then the program runs as it is, without graphmend_bc.")
    return str(error)


def is_known_torch() -> bool:
    """True if this release was written for this torch."""
    return _torch() in TORCH_SUPPORTED


def known_torch() -> str:
    """The releases of torch that are known, as "2.11, 2.13 to 2.15"."""
    return _range(TORCH_SUPPORTED)


def tell_of_torch(lost: Mapping[str, str]) -> None:
    """Log once what is different with this torch, if anything is.

    Args:
        lost: capabilities and features that rest on something that it lacks or goes around, each
            with what that is.
    """
    without = f"without {', '.join(lost)}, because it {' and '.join(dict.fromkeys(lost.values()))}"
    if not is_known_torch():
        also = f", but {without}" if lost else ""
        _warn(
            f"graphmend_bc does not know torch {torch.__version__}, only {known_torch()}. What it "
            f"replaces there was tried in small programs, so it mends{also}. "
            "`python -m graphmend_bc doctor` says more."
        )
    elif lost:
        _warn(
            f"graphmend_bc mends with torch {torch.__version__} {without}. "
            "`python -m graphmend_bc doctor` says more."
        )


@cache
def _warn(text: str) -> None:
    """Each text once in a process."""
    log.warning(text)


def _torch() -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def _sentence(what: str, found: tuple[int, ...], known: tuple[tuple[int, ...], ...]) -> str:
    return (
        f"graphmend_bc does not know {what} {_show(found)}; it supports {what} {_range(known)}. "
        "Install one of these."
    )


def _range(known: tuple[tuple[int, ...], ...]) -> str:
    runs = [[known[0]]]
    for version in known[1:]:
        last = runs[-1][-1]
        if version == (*last[:-1], last[-1] + 1):
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(" to ".join(dict.fromkeys((_show(run[0]), _show(run[-1])))) for run in runs)


def _show(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def running_versions() -> tuple[str, str, str]:
    """The versions of Python, torch and this library."""
    return platform.python_version(), str(torch.__version__), graphmend_bc.__version__
