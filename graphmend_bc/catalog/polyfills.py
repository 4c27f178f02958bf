"""Functions of the standard library that are traced in another form, without their locks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from types import CodeType, MappingProxyType
from typing import Any, Final

from graphmend_bc.catalog.first_use import is_same
from graphmend_bc.runtime import cached, named

_KNOWN: Final[Mapping[Callable[..., Any], Callable[..., Any]]] = MappingProxyType(
    {cached_property.__get__: cached.get, logging.getLogger: named.get_logger}
)
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
