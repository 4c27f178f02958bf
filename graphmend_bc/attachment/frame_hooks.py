"""The C extension: loaded when first needed, in the interpreter while anybody needs it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from dataclasses import dataclass, field
from types import ModuleType

from graphmend_bc.dynamo.patches import torch_compile


@dataclass(slots=True)
class _Users:
    """Who needs the hooks. They are process-wide, so this is too."""

    owners: list[object] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)


_users = _Users()
#: Held while anything about the hooks changes; a thread may take it more than once.
lock = _users.lock

# A child of fork() has only the thread that forked: no other may hold the lock at that moment.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


@atexit.register
def _take_out() -> None:
    """Shut Python down as it would without the hooks, and free what they hold.

    Functions of `atexit` that were registered before this one, such as those of `logging` and of
    torch, run later. The hooks by themselves pass all frames on once modules are being taken apart.
    """
    with lock:
        if _users.owners:
            _users.owners = []
            hooks = sys.modules["graphmend_bc._frame_hooks"]
            hooks.uninstall()
            hooks.set_chooser(None)


def load(wanted_by: str) -> ModuleType:
    """The C extension.

    Args:
        wanted_by: the public name that cannot work without it, such as "attach()".

    Returns:
        The module `graphmend_bc._frame_hooks`.

    Raises:
        ImportError: it is missing here; the message says how to come by it.
    """
    try:
        from graphmend_bc import _frame_hooks
    except ImportError as error:
        raise ImportError(
            f"{wanted_by} needs the C extension graphmend_bc._frame_hooks, which is missing here "
            f"({error}). Everything else works without it. To build it, install a C compiler and "
            "the headers of this Python and install graphmend_bc again from its source, without "
            "GRAPHMEND_BC_NO_EXTENSION set; in a checkout, `python setup.py build_ext --inplace`."
        ) from error
    return _frame_hooks


def require(hooks: ModuleType, owner: object) -> None:
    """Have the hooks in the interpreter until `release(owner)`.

    Args:
        hooks: what `load()` returned.
        owner: told apart by identity; asking twice for one is the same as asking once.
    """
    with lock:
        if not any(owner is other for other in _users.owners):
            if not hooks.installed():
                hooks.install(torch_compile.exchange, torch_compile.current)
            _users.owners.append(owner)


def release(hooks: ModuleType, owner: object) -> None:
    """One owner less; the last one takes the hooks out of the interpreter.

    Args:
        hooks: what `load()` returned.
        owner: what was given to `require()`; unknown ones are ignored.
    """
    with lock:
        left = [other for other in _users.owners if other is not owner]
        if not left:
            hooks.uninstall()
        _users.owners = left
