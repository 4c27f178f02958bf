"""Stances of `torch.compiler.set_stance` under which compiling is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from torch._dynamo import convert_frame, eval_frame, trace_rules
from torch._dynamo.types import ConvertFrameReturn

from graphmend_bc.dynamo.before_graph.graph_slice import end_lookup
from graphmend_bc.dynamo.frames import attempt
from graphmend_bc.dynamo.rollback.eager_fallback import runs_eagerly

_NOT_WARM: Final = (
    "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you have"
    " not warmed up your model with enough inputs such that you can guarantee no more"
    " recompilations."
)
"""Torch's own words."""


def stance_calls_back(
    is_awaited: Callable[[Any], bool], stock: Callable[..., Any]
) -> Callable[..., Any]:
    """`_callback_from_stance`: what becomes of a frame without a compiled version that fits.

    Stock says that this is an error. It is none if we took the version away before the stance, or
    made the value of a condition a guard: the call runs the original code.

    Args:
        is_awaited: whether it is of our doing that a frame, as Dynamo passes it, has no compiled
            version that fits.
        stock: Dynamo's own.
    """

    def _callback_from_stance(callback: Any) -> Any:
        made = stock(callback)
        if not made or attempt.may_compile():
            return made

        def refuse(frame: Any, *args: Any, **kwargs: Any) -> ConvertFrameReturn:
            awaited = is_awaited(frame)
            end_lookup(frame.f_locals)
            if awaited:
                return runs_eagerly()
            if eval_frame._stance.stance == "fail_on_recompile":
                result: ConvertFrameReturn = made(frame, *args, **kwargs)
                return result
            if trace_rules.check(frame.f_code) or not convert_frame.has_tensor_in_frame(frame):
                return ConvertFrameReturn()
            raise RuntimeError(_NOT_WARM)

        refuse._torchdynamo_orig_backend = made  # type: ignore[attr-defined]  # the same backend
        return refuse

    return _callback_from_stance


def skipping_guards(
    needs_guards: Callable[[], bool], stock: Callable[..., bool]
) -> Callable[..., bool]:
    """`_is_skip_guard_eval_unsafe_stance`: guards are evaluated where they choose between arms.

    Otherwise the only version of a condition that flips would run whatever its value is; and where
    versions were forgotten, torch would raise without asking.

    Args:
        needs_guards: whether there is such a frame.
        stock: Dynamo's own.
    """

    def _is_skip_guard_eval_unsafe_stance() -> bool:
        return stock() and not needs_guards()

    return _is_skip_guard_eval_unsafe_stance
