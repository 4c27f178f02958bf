"""Leave one call of a frame to eager Python: the program raises what Dynamo would raise otherwise.

x + torch.ones(4)     for an `x` of three elements is a TorchRuntimeError while tracing
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from torch._C._dynamo.eval_frame import _FrameAction as FrameAction
from torch._C._dynamo.eval_frame import _FrameExecStrategy as FrameExecStrategy
from torch._dynamo import exc
from torch._dynamo.types import ConvertFrameReturn

from graphmend_bc.dynamo.regions import OURS, TORCH

_IS_CALL: ContextVar[bool] = ContextVar("graphmend_bc_is_call", default=False)


class RunsEagerly(exc.TorchRuntimeError):
    """The frame and what it calls run as they are; of a kind that Dynamo passes on as it is."""

    def __init__(self) -> None:
        super().__init__("The frame runs without compilation.")


def can_leave(error: Exception) -> bool:
    """True if the program may raise in this call, or torch by looking at its tensors.

    An exported program is not called.

    Args:
        error: what `compile_frame` raised.
    """
    is_torchs = (
        isinstance(error, (exc.TorchRuntimeError, IndexError)) or type(error) is RuntimeError
    )
    return _IS_CALL.get() and is_torchs and not _is_ours(error)


def _is_ours(error: Exception) -> bool:
    """True if this library raised it, or what it called that is not torch."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        if frame.f_code.co_filename.startswith((OURS, TORCH)):
            return frame.f_code.co_filename.startswith(OURS)
    return False


def convert(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`ConvertFrameAssert.__call__`: what becomes of a frame that is called."""

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _IS_CALL.set(not self._export)
        try:
            return stock(self, *args, **kwargs)
        except RunsEagerly:
            skip = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)
            return ConvertFrameReturn(frame_exec_strategy=skip, apply_to_code=False)
        finally:
            _IS_CALL.reset(token)

    return __call__
