"""A graph that is rolled back if anything warns while it runs."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final

import torch

_SHOW_ALL: Final = functools.partial(warnings.simplefilter, "always")


def silent(
    graph: Callable[..., Any], failed: Callable[[str, str], None] | None
) -> Callable[..., Any]:
    """A compiled graph that is rolled back if anything warns meanwhile.

    Args:
        graph: the graph.
        failed: told of that, with a reason code; None where a break would be an error.
    """

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        with recorded() as said:
            results = graph(*args, **kwargs)
        if said:
            if failed is not None:
                failed("flags-not-neutral", "An operator of the graph warned")
            raise RuntimeError(f"An operator warned: {said[0]}")
        return results

    return run_graph


_alone: Final = RLock()


@contextmanager
def recorded() -> Iterator[list[object]]:
    """Record all that is said meanwhile, in place of showing it.

    What torch says only once is said each time, and counts as not yet said. To set filters makes
    `warnings` forget what it has shown, as the program's block does. Another thread may enter a
    block meanwhile and leave it later: it then puts back what shows as before.
    """
    said: list[object] = []
    with _alone:
        filters, show, always = (
            warnings.filters,
            warnings.showwarning,
            torch.is_warn_always_enabled(),
        )
        is_open = True

        def record(message: Any, *args: Any, **kwargs: Any) -> None:
            if is_open:
                said.append(message)
            else:
                show(message, *args, **kwargs)

        ours: Any = [*filters]
        warnings.filters, warnings.showwarning = ours, record
        _SHOW_ALL()
        torch.set_warn_always(True)
        try:
            yield said
        finally:
            is_open = False
            torch.set_warn_always(always)
            ours[:] = filters
            if warnings.filters is ours:
                warnings.filters = filters
            if warnings.showwarning is record:
                warnings.showwarning = show
