"""Functions that prepare something the first time it is used, known by place.

Such a function looks whether its argument is prepared, and if not, prepares it and remembers that.
It computes nothing else, and a second call changes nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, Final

from graphmend_bc.registration import Registration, Registry


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is known of a function that prepares.

    Attributes:
        function: it takes the object, or its name.
        is_done: whether that is prepared.
        by_name: True if it takes the name.
    """

    function: Callable[[Any], object]
    is_done: Callable[[Any], bool]
    by_name: bool


def _has_logger(name: Any) -> bool:
    """False where a logger would be made that has nothing of the user's in it."""
    manager = logging.Logger.manager
    if not isinstance(name, str) or name in ("", logging.root.name):
        return True
    if (manager.loggerClass or logging.getLoggerClass()) is not logging.Logger:
        return True
    return isinstance(manager.loggerDict.get(name), logging.Logger)


@dataclass(frozen=True, slots=True)
class KnownPreparation:
    """Where a function that prepares is found, and what is known of it.

    Attributes:
        module, name: of the function.
        is_done: whether its argument is prepared.
        by_name: True if it takes a name, False if it takes a module.
    """

    module: str
    name: str
    is_done: Callable[[Any], bool]
    by_name: bool = False


_OURS: Final = (KnownPreparation("logging", "getLogger", _has_logger, by_name=True),)
_registered = Registry[KnownPreparation]()


def register_preparation(known: KnownPreparation) -> Registration:
    """Call a function while compiling, if its argument is not prepared when it is first used.

    Args:
        known: where it is found, and what is known of it.

    Returns:
        A handle; `handle.remove()` makes the function unknown again.
    """
    return _registered.add(known)


def preparation_by(code: CodeType) -> Preparation | None:
    """What is known of the function with a code object, if it prepares.

    Args:
        code: as CPython compiled it, or a copy with other flags and constants.
    """
    for known in (*_OURS, *_registered):
        function = getattr(sys.modules.get(known.module), known.name, None)
        if isinstance(function, FunctionType) and is_same(function.__code__, code):
            return Preparation(function, known.is_done, known.by_name)
    return None


def is_same(one: CodeType, other: CodeType) -> bool:
    """True for a code object and a copy of it with other flags and constants."""
    return _identity(one) == _identity(other)


def _identity(code: CodeType) -> tuple[object, ...]:
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_code
