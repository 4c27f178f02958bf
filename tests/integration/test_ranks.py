"""Two ranks of a data-parallel training that take different branches, and of which one logs."""

from __future__ import annotations

import logging
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

logger = logging.getLogger("ranks")
STEPS = 4


class Model(nn.Module):
    """Branches on its input; each rank has inputs of another sign."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
        y = self.first(x)
        if x.sum() > 0:
            y = y * 2
        scale = 0.5 if x.mean() > 0 else 3  # speculated on, and wrong on one of the ranks at first
        if self.rank == 0:
            logger.info("step %d: %.6f, scale %s", step, y.mean().item(), scale)
            if x.max() > 1:
                logger.info("large: %.6f", x.max())
        return self.second(y * scale)


class Keep(logging.Handler):
    """Keeps the texts and places of messages."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[str, int]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append((record.getMessage(), record.lineno))


def train(rank: int, compiles: str) -> list[Any]:
    """All that one rank can see of a training."""
    torch.manual_seed(0)
    keep = Keep()
    logger.handlers[:] = [keep]
    model: Any = Model(rank)
    if compiles == "inside":
        model = torch.compile(model, backend="eager")
    model = nn.parallel.DistributedDataParallel(model)
    if compiles == "outside":
        model = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1 + rank)
    seen: list[Any] = []
    for step in range(STEPS):
        sign = (-1) ** (rank + (step == 2))  # for one step the ranks change places
        x = (torch.rand(4, 3) * 1.5 * sign).requires_grad_()
        optimizer.zero_grad()
        y = model(x, step)
        y.square().mean().backward()
        optimizer.step()
        grads = [p.grad.tolist() for p in model.parameters()]
        seen.append((y.tolist(), x.grad.tolist(), grads, [p.tolist() for p in model.parameters()]))
    return [seen, keep.texts]


def one_rank(rank: int, folder: str) -> None:
    """Run by each process: eager against compiled."""
    torch.set_num_threads(1)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    expected = train(rank, "")
    assert len(expected[1]) >= STEPS if rank == 0 else not expected[1]
    for compiles in ("outside", "inside"):
        torch._dynamo.reset()
        with gm.enabled():
            found = train(rank, compiles)
            mends = {mend.strategy for mend in gm.report().mends}
        assert found == expected, f"rank {rank}, compiled {compiles}"
        assert {"where", "speculate"} <= mends, gm.report()
        assert rank or "defer" in mends, gm.report()
    dist.destroy_process_group()


@pytest.mark.slow
def test_ranks_that_differ(tmp_path: Path) -> None:
    spawn(one_rank, args=(str(tmp_path),), nprocs=2)
