"""Where an exception comes from that leaves a compiled graph: an operator of it, or elsewhere.

Hooks on saved tensors, modes, handlers of signals and other threads may raise while a graph runs.
"""

from __future__ import annotations

import opcode
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

import torch
from torch.utils import checkpoint

from graphmend_bc.dynamo.frames.generated_code import OURS, TORCH
from graphmend_bc.runtime.signal_handlers import handlers_error, pass_on


def was_raised_by_operator(error: BaseException) -> bool:
    """True if an operator of a compiled graph raised an exception, as far as can be told.

    Args:
        error: what left the graph.
    """
    if not _may_be_operators(error) or handlers_error(error) is not None:
        return False
    frames = [
        (frame, frame.f_code.co_code[entry.tb_lasti] in _RAISES)
        for entry in _entries(error)
        if not (frame := entry.tb_frame).f_code.co_filename.startswith(OURS)
    ]
    graphs = [i for i, (frame, _) in enumerate(frames) if _is_generated(frame)]
    first = next((i for i, (frame, _) in enumerate(frames) if _is_compilers(frame)), len(frames))
    for i, (frame, raises) in enumerate(frames):
        if frame.f_code.co_filename in _HOOKS:
            return False
        is_last = i == len(frames) - 1
        if _is_compilers(frame) or (_is_protocol(frame) and not (is_last and raises)):
            continue
        # A backend's own frames stand above the graph that it runs, or there is none to be seen.
        is_backends = any(i < graph for graph in graphs) or (i < first and not (is_last and raises))
        if not (is_backends or _is_subclass(frame)):
            return False
    return True


def telling(failed: Callable[[Exception], None]) -> Callable[[BaseException], bool]:
    """Says whether an operator raised what left a graph, and lets go of the graph.

    Args:
        failed: told of an error of ours. The original code is then to raise what was raised.
    """

    def is_operators(error: BaseException) -> bool:
        try:
            let_go_of_graph(error)
            return was_raised_by_operator(error)
        except Exception as another:
            pass_on(another)
            failed(another)
            return isinstance(error, Exception)

    return is_operators


def comes_from_outside(error: BaseException) -> bool:
    """True if a program's code did not raise an exception by itself, as far as can be told.

    Args:
        error: what left a function of the program.
    """
    if isinstance(error, KeyboardInterrupt) or handlers_error(error) is not None:
        return True
    if not (entries := _entries(error)):
        return True  # it came between the program's frames
    last = entries[-1]
    raises = last.tb_frame.f_code.co_code[last.tb_lasti] in _RAISES
    return not (error.args or raises)  # as another thread sets it


def let_go_of_graph(error: BaseException) -> None:
    """Clear the locals of a graph that has raised: one may be a mode that lasts as long as it does.

    Args:
        error: what it raised.
    """
    for entry in _entries(error):
        if entry.tb_frame.f_code.co_filename.startswith("<eval_with_key>"):
            entry.tb_frame.clear()


_TYPES = (
    *(RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AssertionError),
    *(ZeroDivisionError, OverflowError, ArithmeticError, MemoryError),
)
"""What operators raise, besides torch's own classes."""

_HOOKS = frozenset(
    file for file in (checkpoint.__file__, torch.autograd.graph.__file__) if file is not None
)
"""Torch's own hooks on saved tensors; they raise to end a recomputation."""

_RAISES = frozenset((opcode.opmap["RAISE_VARARGS"], opcode.opmap["RERAISE"]))


def _may_be_operators(error: BaseException) -> bool:
    """By its class, and because operators say something: what another thread sets has no text."""
    kind = type(error)
    if not isinstance(error, Exception):
        return False
    is_torchs = kind.__module__.partition(".")[0] in ("torch", "triton")
    says = bool(error.args) or isinstance(error, (AssertionError, NotImplementedError))
    return (is_torchs or kind in _TYPES) and says


def _entries(error: BaseException) -> list[TracebackType]:
    found, entry = [], error.__traceback__
    while entry is not None:
        found.append(entry)
        entry = entry.tb_next
    return found


def _is_generated(frame: FrameType) -> bool:
    """Code of a graph: it is run among names of its own, or is a module of the compiler's."""
    name = frame.f_globals.get("__name__")
    return name is None or (
        str(name).startswith("torch.") and not frame.f_code.co_filename.startswith(TORCH)
    )


def _is_compilers(frame: FrameType) -> bool:
    """Torch's own code, or code that it generated."""
    name = str(frame.f_globals.get("__name__", "torch"))
    return name.partition(".")[0] in ("torch", "triton")


def _is_protocol(frame: FrameType) -> bool:
    """Code that torch asks to run an operator: of a mode, a class of tensors or a backend."""
    protocols = ("__torch_dispatch__", "__torch_function__")
    return frame.f_code.co_name in protocols or isinstance(_owner(frame), torch.fx.Interpreter)


def _is_subclass(frame: FrameType) -> bool:
    """Code of a class of tensors, which is the operator."""
    owner = _owner(frame)
    return _is_protocol(frame) and isinstance(owner, type) and issubclass(owner, torch.Tensor)


def _owner(frame: FrameType) -> Any:
    """The first argument."""
    names = frame.f_code.co_varnames[:1]
    return frame.f_locals.get(names[0]) if names else None
