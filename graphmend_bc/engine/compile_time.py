"""How long frames are compiled for, and who is told that one is being compiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import local
from types import CodeType

from graphmend_bc.engine.state import MendingState
from graphmend_bc.registration import Registry

LISTENERS = Registry[Callable[[CodeType], Callable[[], object]]]()
"""Called with the code of a frame before it is compiled; what they return is called after it."""


class _Thread(local):
    """Whether this thread is compiling a frame already, whose time has all of it."""

    compiles = False


_thread = _Thread()


def begin(state: MendingState, code: CodeType) -> Callable[[], None]:
    """A frame is about to be compiled.

    Args:
        state: its report counts the time.
        code: the frame's own code.

    Returns:
        What is to be called afterwards.
    """
    if _thread.compiles:
        return lambda: None
    _thread.compiles = True
    try:
        told = [listener(code) for listener in LISTENERS]
    except BaseException:
        _thread.compiles = False
        raise
    begun = time.perf_counter_ns()

    def end() -> None:
        _thread.compiles = False
        with state.lock:
            state.report.compiled.compile_ns += time.perf_counter_ns() - begun
        for ended in told:
            ended()

    return end
