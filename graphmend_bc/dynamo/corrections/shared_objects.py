"""One object that a frame reaches in two ways, by a local name and by a global one.

Dynamo keeps one object of it, and guards that both ways lead to the same one only if both are local
or both are global.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch._dynamo.guards import GuardBuilder
from torch._guards import Source

from graphmend_bc.dynamo.trace.compilation import current


def guard_shared_objects(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`make_dupe_guard`: the guard on an object that was met before."""

    def make_dupe_guard(obj_source: Source, dupe_source: Source | None) -> Any:
        guard = stock(obj_source, dupe_source)
        is_another = dupe_source is not None and dupe_source != obj_source
        if guard is None and is_another and current() is not None:
            return partial(GuardBuilder.DUPLICATE_INPUT, source_b=dupe_source)
        return guard

    return make_dupe_guard
