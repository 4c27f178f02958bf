"""What `torch.compile` does around a call, taken apart into a before and an after.

`torch.compile(fn)` returns a wrapper that prepares Dynamo's per-thread state, switches Dynamo's
callback on, calls `fn`, and undoes it all. A frame that is already there cannot be called: the
frame hooks evaluate it between `CompiledCall.__call__` and what that returned. The wrapper's
settings (backend, mode, dynamic, hooks) are read off a wrapper that `torch.compile` itself made, so
every keyword means what it means there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import thread as pools
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
from torch._guards import _TLS
from torch.fx._symbolic_trace import is_fx_symbolic_tracing

from graphmend_bc.dynamo.frames.profiler_labels import deoptimised
from graphmend_bc.versions import UnsupportedVersionError

#: Sets Dynamo's callback of this thread and returns the former one; a C function.
exchange = c_eval_frame.set_eval_frame
#: Returns Dynamo's callback of this thread, None where it is off; a C function.
current = c_eval_frame.get_eval_frame_callback

_included_keys = torch._C._dispatch_tls_local_include_set
_excluded_keys = torch._C._dispatch_tls_local_exclude_set
_layer_depth = torch._C._functorch.get_dynamic_layer_stack_depth
_pop_layers = torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth
_is_jit_tracing = torch._C._is_tracing
_COUNTS_FRAMES = hasattr(c_eval_frame, "set_fullgraph_compiled_frame_count")

#: Tells by `_shutdown` whether Python, on its way out, has closed all thread pools.
_pools = vars(pools)

#: Undoes what was set for a frame, given its exception, whose traceback it shortens, or None. It
#: raises RuntimeError if `fullgraph=True` was asked for and Dynamo compiled nothing.
Leave = Callable[[BaseException | None], None]
_Context = eval_frame._TorchDynamoContext
_Settings = list[tuple[Callable[[Any], Any], Callable[[], Any] | None, Any]]


def skipped_by_dynamo(code: CodeType) -> bool:
    """Tell whether Dynamo never compiles a frame of this code object, wherever it is called.

    Args:
        code: a code object; those of torch itself and of the standard library are skipped.

    Returns:
        Whether Dynamo's trace rules skip the file.
    """
    return bool(trace_rules.check(code))


class CompiledCall:
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
    def of(cls, code: CodeType | None, compile_kwargs: dict[str, Any]) -> CompiledCall | None:
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
            Dynamo's callback for the frame, False for only what is compiled already, and what is
            to be called after it; None where `torch.compile` would call its function as it is,
            while Dynamo or FX traces, and beneath a frame whose graph could not be used.
        """
        callback = eval_frame._callback_from_stance(self._context.callback)
        if callback is None or deoptimised.depth or getattr(_TLS, "tracing_context", None):
            return None
        if is_fx_symbolic_tracing() or _is_jit_tracing():
            return None
        if _pools.get("_shutdown"):
            # What is compiled runs, the rest is left to Python: inductor needs threads to compile.
            return False, _prepare(code, self._context, self._settings, counting=False)
        return callback, _prepare(code, self._context, self._settings, self._context.fullgraph)


def _prepare(code: CodeType, context: _Context, settings: _Settings, counting: bool) -> Leave:
    """Set what `torch.compile`'s wrapper sets before a call; what is to be called after it.

    Written without context managers and objects, since it runs at each call of an attached
    function, and the wrapper does not use them either.
    """
    counted = _Counted() if counting and _COUNTS_FRAMES else None
    cleanups = [prepare() for prepare in context.enter_exit_hooks]
    priors = [(setter, setter(value if ask is None else ask())) for setter, ask, value in settings]
    layers, keys = _layer_depth(), (_included_keys(), _excluded_keys())

    def leave(error: BaseException | None) -> None:
        # A graph that fails halfway may leave layers and dispatch keys behind.
        if error is not None and keys != (_included_keys(), _excluded_keys()):
            _force(*keys)
        _pop_layers(layers)
        for setter, prior in reversed(priors):
            setter(prior)
        for cleanup in reversed(cleanups):
            cleanup()
        reasons = None if counted is None else counted.leave()
        if error is not None:
            _shorten(error)
        elif reasons is not None and eval_frame._stance.stance == "default":
            raise RuntimeError(_nothing_compiled(code, reasons))

    return leave


class _Forced(threading.local):
    """Guards that hold a thread's dispatch keys at what they were before a graph failed."""

    def __init__(self) -> None:
        self.guards: list[Any] = []


_forced = _Forced()


def _force(included: Any, excluded: Any) -> None:
    """Set this thread's dispatch keys for good.

    torch can force them only for the life of a guard, and what the guard would put back is what the
    failed graph left behind. So it lives as long as the thread. `torch.compile`'s wrapper enters a
    guard at each call instead, which takes as long as half of the rest of the wrapper.
    """
    guard = torch._C._ForceDispatchKeyGuard(included, excluded)
    guard.__enter__()  # type: ignore[no-untyped-call]
    _forced.guards.append(guard)


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
    """What is set in this thread for one frame.

    Each is a setter that returns the former value, and the value or what gives it at each frame,
    where a stance may change in between. Setters that this torch does not have yet, or no longer,
    are left out.
    """
    wanted: list[tuple[str, Callable[[], Any] | None, Any]] = [
        ("set_skip_guard_eval_unsafe", _skips_guards, None),
        (
            "set_eval_frame_isolate_recompiles_id",
            None,
            getattr(context, "_isolate_recompiles_id", None),
        ),
    ]
    if context.fullgraph:
        wanted += [
            ("set_fullgraph_error_on_nested_compile", _nested_compile_is_an_error, None),
            ("set_eval_frame_override", vars(eval_frame).get("_get_eval_frame_override"), None),
        ]
    settings: _Settings = [
        (getattr(c_eval_frame, name), ask, value)
        for name, ask, value in wanted
        if hasattr(c_eval_frame, name)
    ]
    if not context.fullgraph and context.error_on_graph_break is not None:
        settings.append((_set_error_on_graph_break, None, context.error_on_graph_break))
    return settings


def _skips_guards() -> bool:
    return eval_frame._is_skip_guard_eval_unsafe_stance()


def _nested_compile_is_an_error() -> bool:
    return bool(config.error_on_dynamo_callback_in_fullgraph_compiled_code)


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
