"""Schedulers of learning rates whose `step` may run last."""

from __future__ import annotations

from types import MethodType
from typing import Any, Final

import torch
from torch.optim import Optimizer, lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from graphmend_bc.code.analysis.arithmetic import is_arithmetic


def is_scheduler_step(function: object) -> bool:
    """True for `step` of a scheduler of learning rates, torch's or one that is derived from it."""
    is_method = isinstance(function, MethodType) and isinstance(function.__self__, LRScheduler)
    return is_method and getattr(function, "__name__", "") == "step"


def only_sets_rates(scheduler: object) -> bool:
    """Whether a program could tell the next `step` of a scheduler by the rates alone.

    Args:
        scheduler: any object.

    Returns:
        False for classes that are not torch's, for what calls more of the program than functions
        that compute with numbers, and for what may raise.
    """
    kind = type(scheduler)
    if kind.__module__ != LRScheduler.__module__ or not issubclass(kind, LRScheduler):
        return False
    kept = vars(scheduler)
    if not kept.keys().isdisjoint(("step", "get_lr")) or _sets_tensors(kept.get("optimizer")):
        return False
    if kind in (lr_scheduler.SequentialLR, lr_scheduler.ChainedScheduler):
        inner = kept.get("_schedulers", ())
        return all(type(one) not in _CALLING and only_sets_rates(one) for one in inner)
    if kind in _CALLING:
        return all(_computes(one, kept.get("last_epoch")) for one in kept.get("lr_lambdas", [0]))
    # One raises after its last step, the other may have a function of the program's.
    return kind not in (lr_scheduler.OneCycleLR, lr_scheduler.CyclicLR)


_CALLING: Final = (lr_scheduler.LambdaLR, lr_scheduler.MultiplicativeLR)


def _computes(function: Any, epoch: object) -> bool:
    """Whether a function gives a number for the epoch after one, and does nothing else."""
    if type(epoch) is not int or not is_arithmetic(function):
        return False
    try:
        return type(function(epoch + 1)) in (int, float)
    except Exception:  # the program finds out when it makes the step
        return False


def _sets_tensors(optimizer: object) -> bool:
    """Whether a setting may be a tensor, which others may hold as well."""
    groups = optimizer.param_groups if isinstance(optimizer, Optimizer) else [{"": torch.ones(1)}]
    return any(isinstance(value, torch.Tensor) for group in groups for value in group.values())
