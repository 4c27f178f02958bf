"""Locks over a fork: the child has none of the threads that hold them in the parent."""

from __future__ import annotations

import os
from threading import RLock
from typing import Any, Final
from weakref import WeakSet

_LOCKS: Final[WeakSet[Any]] = WeakSet()


def lock_over_forks() -> RLock:
    """A lock that is free in a forked child, unless the thread that has forked holds it.

    Returns:
        A new lock, for single steps: what one leaves half done, the child finds half done.
    """
    lock = RLock()
    _LOCKS.add(lock)
    return lock


def _free() -> None:
    for lock in _LOCKS:
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free)
