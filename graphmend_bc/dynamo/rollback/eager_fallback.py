"""Leave one call of a frame to eager Python: the program raises what Dynamo would raise otherwise.

x + torch.ones(4)     for an `x` of three elements is a TorchRuntimeError while tracing
x.clamp_(max=y)       for a larger `y` lets the fake `x` grow, and the guards that are made fail
"""

from __future__ import annotations

import inspect
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch._dynamo
from torch._C._dynamo.eval_frame import _FrameAction as FrameAction
from torch._C._dynamo.eval_frame import _FrameExecStrategy as FrameExecStrategy
from torch._dynamo import exc
from torch._dynamo.cache_size import is_recompilation
from torch._dynamo.types import ConvertFrameReturn

from graphmend_bc.dynamo.frames.generated_code import OURS, TORCH
from graphmend_bc.dynamo.frames.internal_errors import is_internal, is_ours
from graphmend_bc.dynamo.frames.saved_packages import without_package
from graphmend_bc.dynamo.rollback.cache_entries import counted, failing_guards, misses_computed
from graphmend_bc.runtime.data_stack import call_with_stack_room
from graphmend_bc.runtime.signal_handlers import pass_on


@dataclass(slots=True)
class _Conversion:
    """One frame that Dynamo was given to convert.

    Attributes:
        is_call: False if it is exported.
        frame: the frame, as Dynamo passes it.
        mended: its code object, once it was compiled with a mend; its guards are made after that.
        charge: told how many nanoseconds it took, guards included, if somebody wants to know.
        undo: called if the frame runs without what is compiled.
        begun: when it began.
    """

    is_call: bool
    frame: Any = None
    mended: CodeType | None = None
    charge: Callable[[int], None] | None = None
    undo: list[Callable[[], None]] = field(default_factory=list)
    begun: int = field(default_factory=time.perf_counter_ns)


_CURRENT: ContextVar[_Conversion | None] = ContextVar("graphmend_bc_conversion", default=None)


class EagerFallback(exc.TorchRuntimeError):
    """The frame and what it calls run as they are; of a kind that Dynamo passes on as it is.

    Args:
        always: whether they do so in later calls of the frame, too.
        uses_compiled: whether what is compiled already is used.
    """

    def __init__(self, always: bool = False, uses_compiled: bool = False) -> None:
        super().__init__("The frame runs without compilation.")
        self.always = always
        self.uses_compiled = uses_compiled


def can_leave(error: Exception) -> bool:
    """True if the program may raise in this call, or torch by looking at its tensors.

    An exported program is not called.

    Args:
        error: what `compile_frame` raised.
    """
    is_torchs = (
        isinstance(error, (exc.TorchRuntimeError, IndexError)) or type(error) is RuntimeError
    )
    return is_called() and is_torchs and not is_ours(error)


def is_called() -> bool:
    """True if the frame that is being compiled is about to run."""
    conversion = _CURRENT.get()
    return conversion is not None and conversion.is_call


def note_mended(code: CodeType) -> None:
    """A frame was compiled with a mend.

    Args:
        code: the frame's own code object.
    """
    if (conversion := _CURRENT.get()) is not None:
        conversion.mended = code


def note_undo(undo: Callable[[], None]) -> None:
    """Something was done for the call of the frame that is being converted.

    Args:
        undo: takes it back; called if the frame runs without what is compiled.
    """
    if (conversion := _CURRENT.get()) is not None:
        conversion.undo.append(undo)


def charge_to(charge: Callable[[int], None]) -> None:
    """Have something told how many nanoseconds the conversion takes that is going on.

    Args:
        charge: what is told, once it has ended; nothing that comes second is.
    """
    if (conversion := _CURRENT.get()) is not None:
        conversion.charge = conversion.charge or charge


def counted_versions(code: CodeType) -> int:
    """How many versions of the frame that is being converted Dynamo counts against its limit.

    Args:
        code: the frame's own code object.
    """
    conversion = _CURRENT.get()
    if conversion is None or not conversion.is_call or conversion.frame is None:
        return 0
    return counted(code, conversion.frame)


def varying_guards(code: CodeType) -> frozenset[str]:
    """What most versions of the frame that is being converted fail for; nothing if it has none.

    Args:
        code: the frame's own code object.
    """
    conversion = _CURRENT.get()
    if conversion is None or not conversion.is_call or conversion.frame is None:
        return frozenset()
    return failing_guards(conversion.frame) if conversion.frame.f_code is code else frozenset()


def _is_hooks(error: Exception) -> bool:
    """True if neither torch nor this library raised it: it was given to `torch.compile`."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return not frame.f_code.co_filename.startswith((OURS, TORCH))


def convert(
    unguarded: Callable[[CodeType, Exception], None],
    is_awaited: Callable[[CodeType], bool],
    stock: Callable[..., Any],
) -> Callable[..., Any]:
    """`_compile`: what becomes of a frame that is called.

    Not of what calls it: Dynamo looks there, up the stack, for `disable(recursive=False)`, and
    takes a frame of ours for the caller of the frame.

    Args:
        unguarded: told of a mended frame whose guards could not be made.
        is_awaited: whether it is of our doing that a frame has no compiled version that fits.
        stock: Dynamo's own.
    """
    parameters = inspect.signature(stock)

    def _compile(*args: Any, **kwargs: Any) -> Any:
        given = parameters.bind(*args, **kwargs).arguments
        frame = given.get("frame")  # None if a recorded one is compiled again
        if _is_wrongly_refused(given, is_awaited):
            return runs_eagerly()
        if given["code"].co_filename == logging.__file__ and not given.get("one_graph"):
            return ConvertFrameReturn()  # stock skips it, if its first call has no tensor
        conversion = _Conversion(frame is not None and not given.get("export"), frame)
        token = _CURRENT.set(conversion)
        # The innermost frames of the stack, which Dynamo does not log: three more are ours.
        kwargs["skip"] = given.get("skip", 0) + 3
        try:
            with without_package(kwargs):
                converted = call_with_stack_room(stock, *args, **kwargs)
            conversion.undo.clear()
            return converted
        except EagerFallback as left:
            return runs_eagerly(left.always, left.uses_compiled)
        except Exception as error:
            pass_on(error)
            if conversion.mended is None or not conversion.is_call or _is_hooks(error):
                raise
            if is_internal(error):
                raise
            unguarded(conversion.mended, error)
        finally:
            for undo in conversion.undo:
                undo()
            _CURRENT.reset(token)
            if conversion.charge is not None:
                conversion.charge(time.perf_counter_ns() - conversion.begun)
        return runs_eagerly()

    return _compile


def _is_wrongly_refused(given: Mapping[str, Any], is_awaited: Callable[[CodeType], bool]) -> bool:
    """True if compiling a frame again is an error to the user, and stock would not have to."""
    frame = given.get("frame")
    if frame is None or not torch._dynamo.config.error_on_recompile:
        return False
    if not is_recompilation(given["cache_size"]):
        return False
    return is_awaited(given["code"]) or misses_computed(frame)


def runs_eagerly(always: bool = False, uses_compiled: bool = False) -> ConvertFrameReturn:
    """What Dynamo is told of a frame that runs as it is, with all that it calls.

    Args:
        always: whether it does so in later calls, too.
        uses_compiled: whether what is compiled already is used, as past Dynamo's limit.
    """
    action = FrameAction.RUN_ONLY if uses_compiled else FrameAction.SKIP
    strategy = FrameExecStrategy(action, action)
    return ConvertFrameReturn(frame_exec_strategy=strategy, apply_to_code=always)
