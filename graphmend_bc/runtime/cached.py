"""`functools.cached_property` as it is since Python 3.12: without the lock that it had before."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

_MISSING = object()


def get(
    function: Callable[..., Any],
    of: cached_property[Any],
    instance: Any,
    owner: type | None = None,
) -> Any:
    """The property's value, which is computed if the instance does not have it yet.

    Args:
        function: the original `__get__`, which knows what to raise.
        of, instance, owner: its arguments.
    """
    cache = getattr(instance, "__dict__", None)
    if of.attrname is None or type(cache) is not dict:
        return function(of, instance, owner)
    value = cache.get(of.attrname, _MISSING)
    if value is _MISSING:
        value = cache[of.attrname] = of.func(instance)
    return value
