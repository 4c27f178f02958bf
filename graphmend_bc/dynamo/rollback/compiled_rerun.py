"""Compile a frame anew in the call whose failed check asks for it, not in one of the next.

Of a condition that goes both ways each value has a version of its own. Stock makes the second one
when it first meets the second value; so does this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import CellType
from typing import Any

from torch._C._dynamo.eval_frame import set_eval_frame
from torch._dynamo.eval_frame import skip_code

from graphmend_bc.runtime.deferral.call_places import CallPlace, call_at, code_at
from graphmend_bc.runtime.deoptimise import Deoptimizer, compiles_anew

_Run = Callable[[tuple[CellType, ...], tuple[Any, ...]], tuple[bool, Any]]


def or_compiled(run: _Run, original: Deoptimizer) -> _Run:
    """What generated code calls on a `Deoptimise`.

    Args:
        run: runs the original code with nothing compiled.
        original: of the code object that Dynamo compiles.

    Returns:
        A function that has Dynamo compile the code anew if the exception asks for it.
    """

    def deoptimise(cells: tuple[CellType, ...], values: tuple[Any, ...]) -> tuple[bool, Any]:
        former = set_eval_frame(None)
        try:
            # Without a callback, nothing may be compiled beneath this call.
            if compiles_anew() and callable(former):
                return replace(original, call=_compiling(former), entries=3).run(cells, values)
            return run(cells, values)
        finally:
            set_eval_frame(former)

    skip_code(deoptimise.__code__)
    return deoptimise


def _compiling(callback: Callable[..., Any]) -> Callable[..., Any]:
    """`call_at`, with Dynamo's callback on. The frames that look like callers are not compiled."""

    def call(places: Sequence[CallPlace], *called: Any) -> Any:
        for code in (call_at.__code__, *map(code_at, places)):
            skip_code(code)
        set_eval_frame(callback)
        try:
            return call_at(places, *called)
        finally:
            set_eval_frame(None)

    return call
