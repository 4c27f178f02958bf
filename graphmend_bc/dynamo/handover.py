"""What `torch.compile` does around a call, taken apart into a before and an after.

`torch.compile(fn)` returns a wrapper that prepares Dynamo's per-thread state, switches Dynamo's
callback on, calls `fn`, and undoes it all. A frame that is already there cannot be called: the
frame hooks evaluate it between `Handover.__call__` and what that returned. The wrapper's settings
(backend, mode, dynamic, hooks) are read off a wrapper that `torch.compile` itself made, so every
keyword means what it means there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import CellType, CodeType, FunctionType
from typing import Any

import torch
from torch._C._dynamo import eval_frame as c_eval_frame
from torch._dynamo import config, eval_frame, trace_rules, utils
from torch._dynamo.exc import (
    ShortenTraceback,
    UncapturedHigherOrderOpError,
    Unsupported,
    UserError,
)
from torch._guards import TracingContext
from torch.fx._symbolic_trace import is_fx_symbolic_tracing

from graphmend_bc.dynamo.annotations import is_deoptimised
from graphmend_bc.versions import UnsupportedVersionError

#: Sets Dynamo's callback of this thread and returns the former one; a C function.
exchange = c_eval_frame.set_eval_frame
#: Returns Dynamo's callback of this thread, None where it is off; a C function.
current = c_eval_frame.get_eval_frame_callback

Leave = Callable[[BaseException | None], None]
_Context = eval_frame._TorchDynamoContext
_Settings = list[tuple[Callable[[Any], Any], Callable[[], Any]]]


def skipped_by_dynamo(code: CodeType) -> bool:
    """Tell whether Dynamo never compiles a frame of this code object, wherever it is called.

    Args:
        code: a code object; those of torch itself and of the standard library are skipped.

    Returns:
        Whether Dynamo's trace rules skip the file.
    """
    return bool(trace_rules.check(code))


class Handover:
    """Compiles frames as `torch.compile(fn, **compile_kwargs)` compiles calls of `fn`.

    An instance is an `enter` of the frame hooks. It holds nothing of any frame: each call returns
    the state to undo, so recursion and threads need no care.

    Args:
        context: what `torch.compile` made of its keywords.
    """

    __slots__ = ("_context", "_settings")

    def __init__(self, context: _Context) -> None:
        self._context = context
        self._settings = _settings(context)

    @classmethod
    def of(cls, code: CodeType | None, compile_kwargs: dict[str, Any]) -> Handover | None:
        """Let `torch.compile` read its keywords.

        Args:
            code: the code object to be compiled even if it mentions no tensor, as
                `torch.compile` does for its function; None leaves that to Dynamo's own judgement.
            compile_kwargs: the keywords of `torch.compile`.

        Returns:
            The handover, or None where `torch.compile` is disabled and would return the function.

        Raises:
            Whatever `torch.compile` raises for these keywords.
        """
        stand_in = _stand_in(_anything.__code__ if code is None else code)
        wrapper = torch.compile(stand_in, **compile_kwargs)
        return None if wrapper is stand_in else cls(_context_of(wrapper))

    def __call__(self, code: CodeType) -> tuple[Any, Leave] | None:
        """Prepare this thread for a frame that is about to be compiled.

        Args:
            code: the frame's code object.

        Returns:
            Dynamo's callback for the frame and what is to be called after it; None where
            `torch.compile` would call its function as it is, while Dynamo or FX traces, and
            beneath a frame whose graph could not be used.
        """
        callback = eval_frame._callback_from_stance(self._context.callback)
        if callback is None or TracingContext.try_get() is not None or is_fx_symbolic_tracing():
            return None
        if torch._C._is_tracing() or is_deoptimised():
            return None
        return callback, _Preparation(code, self._context, self._settings).leave


class _Preparation:
    """What was set before one frame, and how to set it back."""

    __slots__ = ("_code", "_counted", "_undo")

    def __init__(self, code: CodeType, context: _Context, settings: _Settings) -> None:
        self._code = code
        counts = context.fullgraph and hasattr(c_eval_frame, "set_fullgraph_compiled_frame_count")
        self._counted = _Counted() if counts else None
        with ExitStack() as undo:
            for prepare in context.enter_exit_hooks:
                undo.callback(prepare())
            for setter, value in settings:
                undo.callback(setter, setter(value()))
            # A graph that fails halfway may leave layers and dispatch keys behind.
            layers = torch._C._functorch.get_dynamic_layer_stack_depth()
            undo.callback(torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth, layers)
            undo.enter_context(
                torch._C._ForceDispatchKeyGuard(
                    torch._C._dispatch_tls_local_include_set(),
                    torch._C._dispatch_tls_local_exclude_set(),
                )
            )
            self._undo = undo.pop_all()

    def leave(self, error: BaseException | None) -> None:
        """Undo it, newest first, and give the exception the form that `torch.compile` gives it.

        Args:
            error: what the frame raised, or None. It goes on with its traceback shortened.

        Raises:
            RuntimeError: if `fullgraph=True` was asked for and Dynamo compiled nothing.
        """
        self._undo.close()
        reasons = None if self._counted is None else self._counted.leave()
        if error is not None:
            _shorten(error)
        elif reasons is not None and eval_frame._stance.stance == "default":
            raise RuntimeError(_nothing_compiled(self._code, reasons))


class _Counted:
    """Counts the frames that Dynamo compiles or finds compiled, for `fullgraph=True`."""

    __slots__ = ("_former_count", "_former_reasons")

    def __init__(self) -> None:
        self._former_count = c_eval_frame.set_fullgraph_compiled_frame_count(0)
        self._former_reasons = eval_frame.dynamo_tls.skip_reasons
        eval_frame.reset_skip_reasons()

    def leave(self) -> list[str] | None:
        """Stop counting.

        Returns:
            Why frames were skipped if none was compiled, else None.
        """
        count = c_eval_frame.set_fullgraph_compiled_frame_count(self._former_count)
        reasons = eval_frame.get_skip_reasons()
        eval_frame.dynamo_tls.skip_reasons = self._former_reasons
        return reasons if count == 0 else None


def _settings(context: _Context) -> _Settings:
    """What is set in this thread for one frame: a setter that returns the former value, and what
    gives the value; asked at each frame, because a stance may change in between. Setters that
    this torch does not have yet, or no longer, are left out."""
    wanted: dict[str, Callable[[], Any]] = {
        "set_skip_guard_eval_unsafe": eval_frame._is_skip_guard_eval_unsafe_stance,
        "set_eval_frame_isolate_recompiles_id": lambda: context._isolate_recompiles_id,
    }
    if context.fullgraph:
        wanted["set_fullgraph_error_on_nested_compile"] = lambda: (
            config.error_on_dynamo_callback_in_fullgraph_compiled_code
        )
        wanted["set_eval_frame_override"] = lambda: vars(eval_frame)["_get_eval_frame_override"]()
    settings: _Settings = [
        (getattr(c_eval_frame, name), value)
        for name, value in wanted.items()
        if hasattr(c_eval_frame, name)
    ]
    if not context.fullgraph and context.error_on_graph_break is not None:
        settings.append((_set_error_on_graph_break, lambda: context.error_on_graph_break))
    return settings


def _set_error_on_graph_break(value: bool) -> bool:
    former = utils._get_error_on_graph_break()
    utils._set_error_on_graph_break(value)
    return former


def _anything() -> None:
    """Stands in where no code object is known yet."""


def _stand_in(code: CodeType) -> FunctionType:
    """A function for `torch.compile` to read; it is never called."""
    cells = tuple(CellType() for _ in code.co_freevars)
    return FunctionType(code, {"__builtins__": {}}, closure=cells)


def _context_of(wrapper: Callable[..., Any]) -> _Context:
    """The context that `torch.compile`'s wrapper closes over."""
    for cell in wrapper.__closure__ or ():
        if isinstance(cell.cell_contents, eval_frame._TorchDynamoContext):
            return cell.cell_contents
    raise UnsupportedVersionError(
        f"attach() does not know the wrapper that torch.compile makes in torch "
        f"{torch.__version__}. Use one of the torch versions that graphmend_bc supports."
    )


def _shorten(error: BaseException) -> None:
    """Take Dynamo's own frames out of a compilation error's traceback, as the wrapper does."""
    if isinstance(error, ShortenTraceback):
        error.remove_dynamo_frames()
        error.__cause__ = None  # also hides the context, like `raise ... from None`
    elif (
        isinstance(error, (Unsupported, UncapturedHigherOrderOpError, UserError))
        and not config.verbose
    ):
        cause: BaseException | None = error
        while cause is not None:
            cause.__traceback__ = None
            cause = cause.__cause__
        error.__suppress_context__ = True


def _nothing_compiled(code: CodeType, reasons: list[str]) -> str:
    skipped = "".join(f"\n  - {reason}" for reason in reasons)
    return (
        f"{code.co_qualname} is attached with fullgraph=True, and Dynamo compiled no frame of "
        f"this call. " + (f"It skipped:{skipped}" if skipped else "It did not try to.")
    )
