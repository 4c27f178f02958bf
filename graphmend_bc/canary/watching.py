"""Whether a compilation comes by the places where seams are put."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

from graphmend_bc.dynamo.patches.seam import ABSENT, Seam, SeamPlace
from graphmend_bc.versions import MissingSeamError


@contextmanager
def watching(seams: Iterable[Seam]) -> Iterator[set[str]]:
    """Note which places are come by, by their names.

    Args:
        seams: those whose places are watched; they are in place already.
    """
    reached = set[str]()
    before: list[tuple[SeamPlace, Any]] = []
    try:
        replaced = [place for seam in seams if seam.replaced for place in places_of(seam)]
        for place in {str(place): place for place in replaced}.values():
            if place.value() is ABSENT:
                continue
            before.append((place, place.value()))
            place.put(place.made(_noting(str(place), reached)))
        yield reached
    finally:
        for place, value in reversed(before):
            place.put(value)


def places_of(seam: Seam) -> list[SeamPlace]:
    """Where a seam goes; nowhere if this torch lacks that."""
    try:
        return seam.places()
    except MissingSeamError:
        return []


def _noting(name: str, reached: set[str]) -> Callable[[Any], Any]:
    def make(ours: Any) -> Any:
        if is_dataclass(ours):  # an entry of a table, with functions of its own
            functions = {field.name: getattr(ours, field.name) for field in fields(ours)}
            made = {key: make(value) for key, value in functions.items() if value}
            return replace(ours, **made)  # type: ignore[type-var]

        def noted(*args: Any, **kwargs: Any) -> Any:
            reached.add(name)
            return ours(*args, **kwargs)

        return noted

    return make
