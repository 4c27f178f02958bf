"""Register what this folder has, or take it out again."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module
from pkgutil import iter_modules
from threading import Lock
from typing import Final

import graphmend_bc.contrib as room
from graphmend_bc import config
from graphmend_bc.extension import Extension, register
from graphmend_bc.rules.registry import all_rules

_NOT_EXTENSIONS: Final = frozenset({"load"})
_registered: Final = ExitStack()
_lock: Final = Lock()
_is_loaded = False


def extensions() -> tuple[Extension, ...]:
    """One of each module and package in this folder."""
    return tuple(
        import_module(f"{room.__name__}.{module.name}").EXTENSION
        for module in iter_modules(room.__path__)
        if module.name not in _NOT_EXTENSIONS
    )


def rule_names() -> tuple[str, ...]:
    """The names of all rules: ours, those of this folder even if it is off, and the user's."""
    optional = (rule for extension in extensions() for rule in extension.rules)
    return tuple(sorted({rule.name for rule in (*all_rules(), *optional)}))


def load() -> None:
    """Register all extensions if `config.contrib` says so, else none; called by `enable()`.

    Raises:
        ValueError: a rule of the user's has the name of one of ours. None is registered then.
    """
    global _is_loaded
    with _lock:
        if config.contrib == _is_loaded:
            return
        if not config.contrib:
            _registered.close()
        else:
            with ExitStack() as found:
                for extension in extensions():
                    found.callback(register(extension).remove)
                _registered.push(found.pop_all())
        _is_loaded = config.contrib
