"""Functions of the standard library that Dynamo traces in the form of another Python version."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from types import CodeType, MappingProxyType
from typing import Any, Final

from graphmend_bc.preparations import is_same
from graphmend_bc.runtime import cached

_KNOWN: Final = MappingProxyType({cached_property.__get__: cached.get})
"""From a function to what is traced for it: its first argument is the function."""


def polyfill_by(code: CodeType) -> Callable[..., Any] | None:
    """What is traced for the function with a code object, if there is something.

    Args:
        code: as CPython compiled it, or a copy with other flags and constants.
    """
    for function, polyfill in _KNOWN.items():
        if is_same(function.__code__, code):
            return polyfill
    return None
