"""The shapes that `ctc_loss` gives for lengths in tensors; torch's own table lacks them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import DynamicOutputShapeException, FakeTensorMode

from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.extension import Extension

_aten = torch.ops.aten


def _loss(
    mode: FakeTensorMode, func: OpOverload, log_probs: torch.Tensor, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses, and what backward needs: as wide as the longest target is at run time."""
    env = mode.shape_env
    if env is None or not env.allow_dynamic_output_shape_ops:
        raise DynamicOutputShapeException(func)
    time, batch = log_probs.shape[:2]
    # Where the operator is only a part of `F.ctc_loss`, nobody sees a tensor of this size.
    hidden = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is None
    with env.ignore_fresh_unbacked_symbols() if hidden else nullcontext():
        width = env.create_unbacked_symint()
        torch._check(width >= 1)  # type: ignore[no-untyped-call]
        return log_probs.new_empty(batch), log_probs.new_empty((batch, time, width))


def _gradient(
    mode: FakeTensorMode,
    func: OpOverload,
    grad: torch.Tensor,
    log_probs: torch.Tensor,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """The gradient with respect to the log-probabilities."""
    return log_probs.new_empty(log_probs.shape)


def _unless_known(shapes: Callable[..., Any], stock: Callable[..., Any] | None) -> Any:
    return shapes if stock is None else stock


EXTENSION: Final = Extension(
    "ctc",
    seams=tuple(
        Seam(
            "torch._subclasses.fake_impls:op_implementations_dict",
            (operator,),
            partial(_unless_known, shapes),
            "shapes of operators that torch's own table lacks",
            adds=True,
            needed_by=("ctc_loss",),
        )
        for operator, shapes in (
            (_aten._ctc_loss.Tensor, _loss),
            (_aten._ctc_loss_backward.Tensor, _gradient),
        )
    ),
)
