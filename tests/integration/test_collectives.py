"""Collectives around breaks, with ranks that go different ways: as eager, and no rank waits for ever.

A check that fails after a collective would have one rank run it again, alone.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn

import graphmend_bc as gm

if not dist.is_available():
    pytest.skip("This torch has no distributed package.", allow_module_level=True)

Seen = list[Any]


def after_a_collective(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y)
    n = 1 if x.sum() > 0 else 3
    return y * n, n


def before_a_collective(x: torch.Tensor) -> Any:
    n = 1 if x.sum() > 0 else 3
    y = x * n
    dist.all_reduce(y)
    return y, n


def between_collectives(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y)
    z = y if x[0] > 0 else -y
    dist.broadcast(z, 0)
    n = 1 if z.sum() > 0 else 3
    return z * n, n


def read_after_a_collective(x: torch.Tensor) -> Any:
    y = x * 2
    dist.all_reduce(y)
    return [y] * (int(x.sum().item() > 0) + 1)


def in_arms_all_ranks_agree_on(x: torch.Tensor) -> Any:
    s = x.sum()
    dist.all_reduce(s)
    y = x + 1
    n = 0
    if s > 0:
        dist.all_reduce(y)
        n = 2
    else:
        y = y * 5
    return y, n


def functional(x: torch.Tensor) -> Any:
    from torch.distributed._functional_collectives import all_reduce

    group: Any = dist.group.WORLD
    y = all_reduce(x * 2, "sum", group)
    n = 1 if x.sum() > 0 else 3
    return y * n, n


def asynchronous(x: torch.Tensor) -> Any:
    y = x * 2
    work: Any = dist.all_reduce(y, async_op=True)
    n = 1 if x.sum() > 0 else 3
    work.wait()
    return y * n, n


def gathered(x: torch.Tensor) -> Any:
    out = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(out, x)
    n = 1 if x.sum() > 0 else 3
    return out, n


def at_a_barrier(x: torch.Tensor) -> Any:
    y = x * 2
    dist.barrier()
    n = 1 if x.sum() > 0 else 3
    return y * n, n


def one_rank_raises(x: torch.Tensor) -> Any:
    y = x + 1
    dist.all_reduce(y)
    if x.max() > 1.5:
        raise ValueError("too large")
    return y


def sent_along_stages(x: torch.Tensor) -> Any:
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    y = x.clone()
    if rank > 0:
        dist.recv(y, rank - 1)
    n = 1 if x.sum() > 0 else 3
    y = y + n
    if rank < last:
        dist.send(y, rank + 1)
    return y, n


# What mends each, beside "where": nothing is speculated on in a graph with a collective.
PROGRAMS: dict[Callable[[torch.Tensor], Any], set[str]] = {
    after_a_collective: set(),
    before_a_collective: set(),
    between_collectives: {"speculate"},  # `broadcast` breaks the graph, as under stock
    read_after_a_collective: {"hoist"},
    in_arms_all_ranks_agree_on: set(),
    functional: set(),
    asynchronous: {"speculate"},  # what comes after the break
    gathered: set(),
    at_a_barrier: {"speculate"},
    one_rank_raises: set(),
    sent_along_stages: {"speculate"},
}


def inputs(rank: int) -> list[torch.Tensor]:
    """Six inputs; in some calls the ranks go different ways."""
    ups = {0: "uuduud", 1: "uddudu", 2: "duuudu", 3: "uuuddd"}[rank]
    return [torch.tensor([1.0, 2.0]) * (1 if up == "u" else -1) for up in ups]


def run(function: Callable[[torch.Tensor], Any], rank: int) -> Seen:
    seen = []
    for x in inputs(rank):
        try:
            seen.append(repr(function(x)))
        except ValueError as error:
            seen.append(repr(error))
        seen.append(x.tolist())
    return seen


class Shares(nn.Module):
    """Layers that are shared out among the ranks, with a condition between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        if x.sum() > 0:
            y = y * 2
        n = 1 if x.mean() > 0 else 3
        z: torch.Tensor = self.second(y)
        return z * n


def fully_sharded(model: nn.Module) -> None:
    from torch.distributed.fsdp import fully_shard

    fully_shard(model)


def tensor_parallel(model: nn.Module) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(model, mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})


def train(share: Callable[[nn.Module], None], rank: int, compiles: bool) -> Seen:
    torch.manual_seed(0)
    model: Any = Shares()
    share(model)
    called = torch.compile(model, backend="eager") if compiles else model
    alike = share is tensor_parallel  # its ranks have the same input
    seen: Seen = []
    for step in range(4):
        torch.manual_seed(step if alike else 10 * step + rank)
        x = torch.rand(2, 4) * (-1) ** (step if alike else step * rank)
        loss = called(x).square().sum()
        loss.backward()
        grads: list[Any] = [p.grad for p in model.parameters()]
        seen.append((loss.tolist(), [g.to_local().tolist() for g in grads]))
    return seen


def each_rank(rank: int, world: int, folder: str) -> None:
    """Run by each process: eager against mended."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=120),  # a rank that waits for ever is an error after that
    )
    for function, strategies in PROGRAMS.items():
        expected = run(function, rank)
        torch._dynamo.reset()
        with gm.enabled():
            found = run(torch.compile(function, backend="eager"), rank)
            mends = {mend.strategy for mend in gm.report().mends} - {"where"}
        assert found == expected, f"rank {rank}, {function.__name__}"
        assert mends == strategies, f"rank {rank}, {function.__name__}: {gm.report()}"
    for share in (fully_sharded, tensor_parallel):
        expected = train(share, rank, compiles=False)
        torch._dynamo.reset()
        with gm.enabled():
            found = train(share, rank, compiles=True)
        assert found == expected, f"rank {rank}, {share.__name__}"
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, 4])
def test_ranks_that_go_different_ways(world: int, tmp_path: Path) -> None:
    spawn(each_rank, args=(world, str(tmp_path)), nprocs=world)
