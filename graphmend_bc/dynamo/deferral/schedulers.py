"""Schedulers of learning rates whose `step` may run last."""

from __future__ import annotations

from types import MethodType

import torch
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from graphmend_bc.code.analysis.arithmetic import is_arithmetic


def is_scheduler_step(function: object) -> bool:
    """True for `step` of a scheduler of learning rates, torch's or one that is derived from it."""
    is_method = isinstance(function, MethodType) and isinstance(function.__self__, LRScheduler)
    return is_method and getattr(function, "__name__", "") == "step"


def only_sets_rates(scheduler: object) -> bool:
    """Whether `step` of a scheduler does nothing that a program could tell but by the scheduler.

    Args:
        scheduler: any object.

    Returns:
        False for classes that are not torch's, and for what calls more of the program than
        functions that compute with numbers.
    """
    kind = type(scheduler)
    if kind.__module__ != LRScheduler.__module__ or not issubclass(kind, LRScheduler):
        return False
    kept = vars(scheduler)
    if not kept.keys().isdisjoint(("step", "get_lr")) or _sets_tensors(kept.get("optimizer")):
        return False
    if isinstance(scheduler, (lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler)):
        return all(map(only_sets_rates, kept.get("_schedulers", [None])))
    if isinstance(scheduler, (lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR)):
        return all(map(is_arithmetic, kept.get("lr_lambdas", [None])))
    return kept.get("_scale_fn_custom") is None


def _sets_tensors(optimizer: object) -> bool:
    """Whether a setting may be a tensor, which others may hold as well."""
    groups = optimizer.param_groups if isinstance(optimizer, Optimizer) else [{"": torch.ones(1)}]
    return any(isinstance(value, torch.Tensor) for group in groups for value in group.values())
