"""A value that is computed before the graph must not read what the frame writes before it asks.

    x.add_(1)
    for _ in range(int(a[0])):      a is x, or a view of it, in some calls

What shares memory in the first call is refused. For later calls there is a guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch._dynamo.source import SyntheticLocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._guards import ChainedSource, Source

from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.graph.input_aliasing import span_of
from graphmend_bc.dynamo.graph.lambda_guards import asking, guard_by, value_at
from graphmend_bc.reporting.reasons import Refused


def guard_apart(piece: Slice) -> None:
    """Compile anew where an input that is read shares memory with one that was written before.

    Args:
        piece: what is computed before the graph.
    """
    given = [place for place in piece.sources if not is_made_before_graph(place)]
    if not piece.written or not given:
        return
    read, written = (
        "".join(f"{place.name}, " for place in places) for places in (given, piece.written)
    )
    holds = asking(f"_are_apart(({read}), ({written}))", {"_are_apart": _are_apart})
    guard_by(holds, "what is computed before the graph shares no memory with what is written")


def check_apart_now(tx: InstructionTranslatorBase, piece: Slice) -> None:
    """Refuse where that is so in the call that is compiled.

    Args:
        tx: translator of any frame of the trace.
        piece: what is computed before the graph.

    Raises:
        Refused: an input that is read shares memory with one that was written before.
    """
    read, written = (
        [value_at(tx, place) for place in places if not is_made_before_graph(place)]
        for places in (piece.sources, piece.written)
    )
    if not _are_apart(read, written):
        raise Refused("hoist-not-input", "Memory was changed in place before.")


def is_made_before_graph(place: Source) -> bool:
    """Whether generated code makes it, as it does what is drawn: no input shares its memory.

    Args:
        place: where the graph finds an input.
    """
    while isinstance(place, ChainedSource):
        place = place.base
    return isinstance(place, SyntheticLocalSource)


def _are_apart(read: Iterable[object], written: Iterable[object]) -> bool:
    spans = [*_spans(written)]
    return not any(
        start < other_end and other_start < end
        for start, end in _spans(read)
        for other_start, other_end in spans
    )


def _spans(values: Iterable[object]) -> Iterator[tuple[int, int]]:
    """Where the memory of the tensors among some values, and in lists, begins and ends."""
    for value in values:
        if isinstance(value, list):
            yield from _spans(value)
        if isinstance(value, torch.Tensor) and value.layout is torch.strided:
            yield span_of(value)
