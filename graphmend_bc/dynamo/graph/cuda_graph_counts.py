"""How many CUDA graphs Inductor has recorded, and into how many pieces it splits graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import Any

from torch._dynamo.utils import counters

_TREES = "torch._inductor.cudagraph_trees"


@dataclass(frozen=True, slots=True)
class CudaGraphCounts:
    """CUDA graphs of this process; those of the thread that asks, where torch keeps them by thread.

    Attributes:
        recorded: how many there are.
        rerecorded: how many of them were recorded for inputs that did not fit an earlier one.
        partitions: pieces of graphs that were split, because not all operators can be recorded.
        skipped: graphs, or calls of them, that go without.
    """

    recorded: int = 0
    rerecorded: int = 0
    partitions: int = 0
    skipped: int = 0

    def since(self, before: CudaGraphCounts) -> CudaGraphCounts:
        """What has come since; nothing where torch has dropped graphs or counts meanwhile."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return CudaGraphCounts(*(max(now - then, 0) for now, then in pairs))


def cuda_graph_counts() -> CudaGraphCounts:
    """The counts now."""
    managers, inductor = list(_managers()), counters["inductor"]
    return CudaGraphCounts(
        recorded=sum(_recorded(manager.roots) for manager in managers),
        rerecorded=sum(
            count
            for manager in managers
            for by in manager.num_rerecord.values()
            for count in by.values()
        ),
        partitions=inductor["cudagraph_partitions"],
        skipped=inductor["cudagraph_skips"],
    )


def _managers() -> Iterator[Any]:
    """What keeps the CUDA graphs of each device; nothing where none was recorded."""
    trees = sys.modules.get(_TREES)
    containers = getattr(getattr(trees, "local", None), "tree_manager_containers", {})
    for container in containers.values():
        if container.tree_manager is not None:
            yield container.tree_manager


def _recorded(children: Any) -> int:
    """The nodes of a tree of CUDA graphs: what was recorded after what."""
    nodes = [node for known in children.values() for node in known]
    return len(nodes) + sum(_recorded(node.children) for node in nodes)
