"""Remember which memory eager Python might have shared with a chosen tensor."""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch.fx import Node

from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.legality.storage import Choice, storage_of
from graphmend_bc.runtime import Site


def note_sharing(
    trace: Trace, site: Site, chosen: Node, *sides: tuple[torch.Tensor, Collection[int]]
) -> None:
    """Note a choice for the proof over the whole graph.

    Args:
        trace: the attempt that is running.
        site: the branch or loop that chooses.
        chosen: the node of the chosen tensor.
        sides: what eager Python might have there, each with the storages that were allocated where
            it was made.
    """
    outside: set[int] = set()
    origins: set[int] = set()
    earlier = {choice.result: choice for _, choice in trace.choices.values()}
    for tensor, allocated in sides:
        storage = storage_of(tensor)
        origins.add(storage)
        if storage in earlier:
            outside |= earlier[storage].outside
            origins |= earlier[storage].origins
        if storage not in allocated:
            outside.add(storage)
    assert trace.recorder is not None
    since = len(trace.recorder.written)
    own = storage_of(chosen.meta["example_value"])
    trace.choices[chosen] = (site, Choice(own, frozenset(outside), frozenset(origins), since))
