"""Optimizers: whole training steps with optimizers, schedulers and averages of libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import Use, item, stepped


def _step(make: Callable[[Any], Any], **options: Any) -> Use:
    """A step of a small network."""
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    return stepped(
        model,
        make(model.parameters()),
        lambda net, x, labels: torch.nn.functional.cross_entropy(net(x), labels),
        lambda n: (torch.randn(8, 6), torch.randint(3, (8,))),
        **options,
    )


@item("pytorch_optimizer")
def adabelief() -> Use:
    from pytorch_optimizer import AdaBelief

    return _step(lambda weights: AdaBelief(weights, lr=1e-3))


@item("pytorch_optimizer")
def lion() -> Use:
    from pytorch_optimizer import Lion

    return _step(lambda weights: Lion(weights, lr=1e-4), clip=1.0)


@item("pytorch_optimizer")
def adan() -> Use:
    from pytorch_optimizer import Adan

    return _step(lambda weights: Adan(weights, lr=1e-3))


@item("pytorch_optimizer")
def lookahead_of_radam() -> Use:
    from pytorch_optimizer import Lookahead, RAdam

    return _step(lambda weights: Lookahead(RAdam(weights, lr=1e-3), k=2, alpha=0.5))


@item("pytorch_optimizer")
def prodigy() -> Use:
    from pytorch_optimizer import Prodigy

    return _step(lambda weights: Prodigy(weights, lr=1.0))


@item("pytorch_optimizer")
def adafactor() -> Use:
    from pytorch_optimizer import AdaFactor

    return _step(lambda weights: AdaFactor(weights, lr=1e-3))


@item("pytorch_optimizer")
def sharpness_aware() -> Use:
    from pytorch_optimizer import SAM

    model = torch.nn.Linear(6, 3)
    optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1, rho=0.05)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.first_step(zero_grad=True)
        torch.nn.functional.cross_entropy(model(x), labels).backward()
        optimizer.second_step(zero_grad=True)
        return loss.detach()

    return Use(
        "step",
        step,
        lambda n: (torch.randn(8, 6), torch.randint(3, (8,))),
        (model, optimizer),
    )


@item("pytorch_optimizer")
def warmup_restarts() -> Use:
    from pytorch_optimizer import AdamP, CosineAnnealingWarmupRestarts

    model = torch.nn.Linear(6, 1)
    optimizer = AdamP(model.parameters(), lr=1e-3)
    schedule = CosineAnnealingWarmupRestarts(optimizer, 6, max_lr=1e-2, warmup_steps=2)
    return stepped(
        model,
        optimizer,
        lambda net, x, y: torch.nn.functional.binary_cross_entropy_with_logits(net(x), y),
        lambda n: (torch.randn(8, 6), torch.randint(2, (8, 1)).float()),
        scheduler=schedule,
    )


@item("lion-pytorch")
def lion_of_its_authors() -> Use:
    from lion_pytorch import Lion

    return _step(lambda weights: Lion(weights, lr=1e-4, weight_decay=1e-2))


@item("torch-optimizer")
def yogi() -> Use:
    from torch_optimizer import Yogi

    return _step(lambda weights: Yogi(weights, lr=1e-2))


@item("torch-optimizer")
def diff_grad() -> Use:
    from torch_optimizer import DiffGrad

    return _step(lambda weights: DiffGrad(weights, lr=1e-3))


@item("torch-ema")
def averaged_step() -> Use:
    from torch_ema import ExponentialMovingAverage

    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    average = ExponentialMovingAverage(model.parameters(), decay=0.99)

    def step(x: torch.Tensor, labels: torch.Tensor) -> float:
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update()
        return loss.item()

    return Use(
        "step",
        step,
        lambda n: (torch.randn(8, 6), torch.randint(3, (8,))),
        (model, optimizer, average),
    )


@item("pytorch-warmup")
def warmed_up_step() -> Use:
    import pytorch_warmup

    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    warmup = pytorch_warmup.UntunedLinearWarmup(optimizer)

    def step(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        with warmup.dampening():
            schedule.step()
        return loss.detach()

    return Use(
        "step",
        step,
        lambda n: (torch.randn(8, 6), torch.randint(3, (8,))),
        (model, optimizer, schedule, warmup),
    )


@item("mup")
def width_scaled_step() -> Use:
    from mup import MuAdam, MuReadout, set_base_shapes

    def network(width: int) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.ReLU(), MuReadout(width, 3))

    model = set_base_shapes(network(8), network(4), delta=network(6))
    return stepped(
        model,
        MuAdam(model.parameters(), lr=1e-3),
        lambda net, x, labels: torch.nn.functional.cross_entropy(net(x), labels),
        lambda n: (torch.randn(8, 6), torch.randint(3, (8,))),
    )
