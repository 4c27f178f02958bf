"""Functions that prepare something the first time it is used, known by place.

Such a function looks whether its argument is prepared, and if not, prepares it and remembers that.
It computes nothing else, and a second call changes nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, Final


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


def _has_hooks(model: Any) -> bool:
    return bool(getattr(model, "_output_capturing_hooks_installed", False))


def _has_logger(name: Any) -> bool:
    """False where a logger would be made that has nothing of the user's in it."""
    manager = logging.Logger.manager
    if not isinstance(name, str) or name in ("", logging.root.name):
        return True
    if (manager.loggerClass or logging.getLoggerClass()) is not logging.Logger:
        return True
    return isinstance(manager.loggerDict.get(name), logging.Logger)


_KNOWN: Final = MappingProxyType(
    {
        ("transformers.utils.output_capturing", "maybe_install_capturing_hooks"): (
            _has_hooks,
            False,
        ),
        ("logging", "getLogger"): (_has_logger, True),
    }
)
"""From module and name of a function to `is_done` and `by_name`."""


def preparation_by(code: CodeType) -> Preparation | None:
    """What is known of the function with a code object, if it prepares.

    Args:
        code: as CPython compiled it, or a copy with other flags and constants.
    """
    for (module, name), (is_done, by_name) in _KNOWN.items():
        function = getattr(sys.modules.get(module), name, None)
        if isinstance(function, FunctionType) and is_same(function.__code__, code):
            return Preparation(function, is_done, by_name)
    return None


def is_same(one: CodeType, other: CodeType) -> bool:
    """True for a code object and a copy of it with other flags and constants."""
    return _identity(one) == _identity(other)


def _identity(code: CodeType) -> tuple[object, ...]:
    return code.co_filename, code.co_qualname, code.co_firstlineno, code.co_code
