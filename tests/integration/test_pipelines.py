"""Stages of a pipeline, and ranks with different numbers of batches: as eager, and no rank waits for ever."""

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
WORLD = 2
CHUNKS = 4


class Stage(nn.Module):
    """Layers with conditions on what comes from the stage before."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.layer = nn.Linear(4, 4)
        self.calls: list[float] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        if y.sum() > 0:
            y = y * 2
        n = 1 if x.mean() > 0 else 3  # speculated on
        self.calls.append(y.detach().abs().max().item())
        return y.tanh() * n


def pipelined(kind: str, rank: int, compiles: bool) -> Seen:
    """All that a rank sees of four steps."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    torch.manual_seed(rank)
    module = Stage(rank)
    called: Any = torch.compile(module, backend="eager") if compiles else module
    given = torch.rand(1, 4, requires_grad=rank > 0)
    gives = torch.rand(1, 4, requires_grad=True)
    cpu = torch.device("cpu")
    piece = PipelineStage(called, rank, WORLD, cpu, input_args=given, output_args=gives)
    make: Any = {"GPipe": ScheduleGPipe, "1F1B": Schedule1F1B}[kind]
    schedule = make(piece, CHUNKS, loss_fn=lambda found, wanted: (found - wanted).square().sum())
    seen: Seen = []
    for step in range(4):
        torch.manual_seed(100 + step)
        x, wanted = torch.rand(CHUNKS, 4) * (-1) ** step, torch.rand(CHUNKS, 4)
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(x)
        else:
            seen.append(schedule.step(target=wanted, losses=losses).tolist())
        seen.append([loss.item() for loss in losses])
        seen.append([p.grad.tolist() for p in module.parameters() if p.grad is not None])
        seen.append([*module.calls])
    return seen


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        self.steps += 1
        if x.sum() > 0:
            y = y * 2
        n = 1 if y.mean() > 0 else 3
        return y * n


def uneven(compiled: str, rank: int) -> Seen:
    """Three batches on one rank and five on the other; `Join` stands in for the former at the end."""
    from torch.distributed.algorithms.join import Join

    torch.manual_seed(0)
    model: Any = Model()
    if compiled == "inside":
        model = torch.compile(model, backend="eager")
    model = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
    called = torch.compile(model, backend="eager") if compiled == "outside" else model
    seen: Seen = []
    with Join([model]):
        for step in range(3 + 2 * rank):
            torch.manual_seed(10 * step + rank)
            model.zero_grad()
            loss = called(torch.rand(2, 3) * (-1) ** (step // 2)).square().sum()
            loss.backward()
            seen.append((loss.item(), [p.grad.tolist() for p in model.parameters()]))
    seen.append([b.tolist() for b in model.buffers()])
    return seen


def each_rank(rank: int, folder: str) -> None:
    """Run by each process: eager against mended."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=WORLD,
        timeout=timedelta(seconds=120),  # a rank that waits for ever is an error after that
    )
    for kind in ("GPipe", "1F1B"):
        compare(rank, kind, lambda compiles, kind=kind: pipelined(kind, rank, compiles))  # type: ignore[misc]
    for compiled in ("inside", "outside"):
        compare(
            rank,
            f"uneven, {compiled}",
            lambda compiles, compiled=compiled: uneven(compiled if compiles else "", rank),  # type: ignore[misc]
        )
    dist.destroy_process_group()


def compare(rank: int, name: str, run: Callable[[bool], Seen]) -> None:
    """Eager against mended."""
    expected = run(False)
    torch._dynamo.reset()
    with gm.enabled():
        found = run(True)
        mends = {mend.strategy for mend in gm.report().mends}
    assert found == expected, f"rank {rank}, {name}"
    assert "speculate" in mends, f"rank {rank}, {name}: {gm.report()}"


@pytest.mark.slow
def test_stages_and_uneven_ranks(tmp_path: Path) -> None:
    spawn(each_rank, args=(str(tmp_path),), nprocs=WORLD)
