"""What the frame is going to draw, drawn ahead from copies of the generators."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from torch._dynamo.source import GetItemSource, SyntheticLocalSource
from torch._guards import Source

from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.random_draws.drawn_values import HostDraw, HostDraws
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.draws import copy_of

Place = tuple[str, int]
"""The variable of the generated code that holds what a call drew, and which item of it."""


def place_in_draws(source: Source) -> Place | None:
    """Where an input of the graph was drawn; None for any other input."""
    base = source.base if isinstance(source, GetItemSource) else None
    if not isinstance(source, GetItemSource) or not isinstance(base, SyntheticLocalSource):
        return None
    return base.local_name, source.index


def foreseen(piece: Slice, trace: Trace) -> Slice:
    """A slice that asks what the frame draws, as one that draws ahead.

    Args:
        piece: asks for some of the graph's inputs that are drawn, and for others.
        trace: the attempt that is running.

    Raises:
        Refused: it asks for something else that is made before the graph.
    """
    places = [place_in_draws(source) for source in piece.sources]
    draws = trace.of(HostDraws)
    numbers = {local: number for number, local in enumerate(draws.locals)}
    if any(place is not None and place[0] not in numbers for place in places):
        raise Refused("hoist-not-input", "It depends on what is made before the graph.")
    asked = [None if place is None else (numbers[place[0]], place[1]) for place in places]
    before = draws.draws[: 1 + max(place[0] for place in asked if place is not None)]
    given = [source for source, place in zip(piece.sources, places, strict=True) if place is None]
    sources = [source for draw in before for source in draw.sources] + given

    def value(*values: Any) -> Any:
        left = iter(values)
        drawn = drawn_ahead(before, left, {place[0] for place in asked if place is not None})
        return piece.function(
            *(next(left) if place is None else drawn[place[0]][0][place[1]] for place in asked)
        )

    label = f"{piece.label} draws {next(_numbers)}"
    return Slice(label, tuple(sources), value, piece.ops)


_numbers = itertools.count()


def drawn_ahead(
    draws: Sequence[HostDraw], values: Iterator[Any], wanted: Collection[int]
) -> dict[int, tuple[Any, Any]]:
    """What some calls are going to give, as `HostDraw.call` does, by their numbers.

    Args:
        draws: all calls of the frame, in order, up to the last of these.
        values: what their sources give, one after the other.
        wanted: the numbers of the calls.

    Raises:
        Refused: a call would be one of another function than in the trace, or cannot be made with
            another generator.
    """
    given = [list(itertools.islice(values, len(draw.sources))) for draw in draws]
    generators = [draw.generators(*values) for draw, values in zip(draws, given, strict=True)]
    copies = {id(each): copy_of(each) for n in wanted for each in generators[n] or ()}
    drawn: dict[int, tuple[Any, Any]] = {}
    for number, draw in enumerate(draws):
        known = generators[number]
        if known is None:
            raise Refused("hoist-not-input", "The function is another one now.")
        if copies.keys().isdisjoint(map(id, known)):
            continue
        if draw.on is None:
            raise Refused("hoist-not-input", "It cannot be drawn ahead.")
        drawn[number] = draw.on(copies[id(known[0])], *given[number])
    return drawn
