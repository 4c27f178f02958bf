"""Wrappers of torch.distributed on one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

import graphmend_bc as gm

if not dist.is_available():
    pytest.skip("This torch has no distributed package.", allow_module_level=True)


@pytest.fixture(autouse=True)
def one_process(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.second = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        if y.sum() > 0:
            y = y * 2
        z = self.second(y)
        if z.sum() > 0:
            z = self.second(z)
        if torch.isnan(z).any():
            raise FloatingPointError("nan")
        return z


def _steps(wrapped: Any) -> list[Any]:
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW(wrapped.parameters(), lr=0.1)
    seen = []
    for step in range(6):
        x = torch.randn(4, 3) * (-1) ** step
        optimizer.zero_grad()
        loss = wrapped(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        seen.append((loss.item(), [p.tolist() for p in wrapped.parameters()]))
    return seen


@pytest.mark.parametrize("outside", [True, False], ids=["compiled outside", "compiled inside"])
@pytest.mark.parametrize("split", [True, False], ids=["split", "whole"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_data_parallel(
    backend: str, split: bool, outside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 8)

    def wrapped(compiles: bool) -> Any:
        torch.manual_seed(0)
        model: Any = Model()
        if compiles and not outside:
            model = torch.compile(model, backend=backend)
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-5)
        return torch.compile(model, backend=backend) if compiles and outside else model

    expected = _steps(wrapped(compiles=False))
    with gm.enabled(), torch._dynamo.config.patch(optimize_ddp=split):
        assert _steps(wrapped(compiles=True)) == expected


def test_fully_sharded() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    def wrapped(compiles: bool) -> Any:
        torch.manual_seed(0)
        model: Any = Model()
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
        return torch.compile(model, backend="eager") if compiles else model

    def steps(model: Any) -> list[Any]:
        torch.manual_seed(1)
        seen = []
        for step in range(4):
            loss = model(torch.randn(4, 3) * (-1) ** step).pow(2).sum()
            loss.backward()
            seen.append((loss.item(), [p.grad.full_tensor().tolist() for p in model.parameters()]))
        return seen

    expected = steps(wrapped(compiles=False))
    with gm.enabled():
        assert steps(wrapped(compiles=True)) == expected
