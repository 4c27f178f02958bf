"""Counts of CUDA graphs, from what torch keeps of them; here without a GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from torch._dynamo.utils import counters
from torch._inductor import cudagraph_trees

import graphmend_bc as gm
from graphmend_bc.dynamo.graph.cuda_graph_counts import CudaGraphCounts, cuda_graph_counts


def node(**children: list[SimpleNamespace]) -> SimpleNamespace:
    return SimpleNamespace(children=children)


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What keeps the graphs of one device: `a`, then `b`, which was recorded twice after it."""
    kept = SimpleNamespace(roots={"a": [node(b=[node(), node()])]}, num_rerecord={None: {"b": 1}})
    containers = {0: SimpleNamespace(tree_manager=kept), 1: SimpleNamespace(tree_manager=None)}
    monkeypatch.setattr(cudagraph_trees.local, "tree_manager_containers", containers, raising=False)
    return kept


@pytest.fixture(autouse=True)
def no_counts() -> Iterator[None]:
    before = Counter(counters["inductor"])
    counters["inductor"].clear()
    yield
    counters["inductor"] = before


def test_nodes_of_all_trees_are_counted(manager: SimpleNamespace) -> None:
    counters["inductor"] |= Counter(cudagraph_partitions=3, cudagraph_skips=2)
    assert cuda_graph_counts() == CudaGraphCounts(3, 1, 3, 2)


def test_what_is_dropped_meanwhile_counts_for_nothing(manager: SimpleNamespace) -> None:
    before = cuda_graph_counts()
    manager.roots.clear()
    manager.num_rerecord[None]["b"] = 4
    assert cuda_graph_counts().since(before) == CudaGraphCounts(rerecorded=3)


def test_a_profile_tells_what_was_recorded_meanwhile(manager: SimpleNamespace) -> None:
    with gm.profile() as prof:
        manager.roots["c"] = [node()]
        counters["inductor"]["cudagraph_partitions"] += 2
    assert prof.costs.cuda_graphs == CudaGraphCounts(recorded=1, partitions=2)
    line = "CUDA graphs recorded: 1, of them again: 0; graphs split into 2 partitions, without: 0"
    assert line in prof.table().splitlines()


def test_a_program_without_them_has_no_line() -> None:
    with gm.profile() as prof:
        pass
    assert prof.costs.cuda_graphs == CudaGraphCounts()
    assert "CUDA" not in prof.table()
