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

from graphmend_bc.reporting.reasons import Refused


def storage_of(tensor: torch.Tensor) -> int:
    """A number that two tensors share exactly if they share memory, while both are alive.

    The number of a tensor that is gone may be given to another one; see `storage_reference`.
    """
    return int(storage_reference(tensor).cdata)


def storage_reference(tensor: torch.Tensor) -> StorageWeakRef:
    """A weak reference to a tensor's storage: while it is held, its number is given to no other.

    The tensors that `torch.func` wraps at each level stand for the memory of what they wrap.
    """
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


@dataclass(frozen=True, slots=True)
class Choice:
    """A chosen tensor that eager Python might have left sharing memory.

    Attributes:
        result: storage of the chosen tensor.
        outside: storages from before the branch that it might have shared.
        origins: all storages that it might have been, those made in the arms included.
        since: how many in-place writes had been seen before the choice.
    """

    result: int
    outside: frozenset[int]
    origins: frozenset[int]
    since: int


def check_choice(
    choice: Choice, others: Iterable[Choice], written: list[int], visible: Collection[int]
) -> None:
    """Show for a whole graph that a choice cannot be told from eager's sharing.

    Args:
        choice: one choice made in the graph.
        others: the other choices.
        written: storages written in place, in the order of the writes.
        visible: storages of the graph's inputs, parameters, buffers and results.

    Raises:
        Refused: the choice could be noticed.
    """
    later = set(written[choice.since :])
    if choice.outside and later & (choice.outside | {choice.result}):
        raise Refused("alias-mutated")
    if choice.result in visible and not choice.outside.isdisjoint(visible):
        raise Refused("alias-escapes")
    for other in others:
        if other.result == choice.result or not other.origins & choice.origins:
            continue
        if {choice.result, other.result} & set(written[min(choice.since, other.since) :]):
            raise Refused("alias-mutated", "Two chosen tensors may share it.")
        if choice.result in visible and other.result in visible:
            raise Refused("alias-escapes", "Two chosen tensors may share it.")
