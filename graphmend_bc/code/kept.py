"""Results that are kept for the last few questions, and given up together."""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

T = TypeVar("T")

_caches: list[_lru_cache_wrapper[Any]] = []


def kept(count: int) -> Callable[[Callable[..., T]], _lru_cache_wrapper[T]]:
    """`functools.lru_cache`, emptied by `forget_kept`: the arguments hold code objects.

    Args:
        count: how many results are kept.
    """

    def decorate(function: Callable[..., T]) -> _lru_cache_wrapper[T]:
        cache = lru_cache(maxsize=count)(function)
        _caches.append(cache)
        return cache

    return decorate


def forget_kept() -> None:
    """Give up all results that are kept."""
    for cache in _caches:
        cache.cache_clear()
