"""Would anybody notice that a chosen tensor has memory of its own?

In eager Python the result of `x if c else x + 1` may be `x` itself. `where` gives new memory,
which is the same to everyone as long as nothing writes to either and not both are visible outside
the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from graphmend_bc.reasons import Refused


def storage_of(tensor: torch.Tensor) -> int:
    """A number that two tensors share exactly if they share memory."""
    return int(StorageWeakRef(tensor.untyped_storage()).cdata)  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen tensor that eager Python might have left sharing memory.

    Attributes:
        result: storage of the chosen tensor.
        sources: storages it might have shared.
        since: how many in-place writes had been seen before the choice.
    """

    result: int
    sources: frozenset[int]
    since: int


def check_choices(
    choices: Iterable[Choice], written: list[int], inputs: Collection[int], outputs: Collection[int]
) -> None:
    """Show for a whole graph that no choice can be told from eager's sharing.

    Args:
        choices: the choices made in the graph.
        written: storages written in place, in the order of the writes.
        inputs: storages of the graph's inputs, parameters and buffers.
        outputs: storages of what the graph returns.

    Raises:
        Refused: some choice could be noticed.
    """
    visible = set(inputs) | set(outputs)
    for choice in choices:
        later = set(written[choice.since :])
        if later & (choice.sources | {choice.result}):
            raise Refused("alias-mutated")
        if choice.result in visible and choice.sources & visible:
            raise Refused("alias-escapes")
