"""Compile a frame anew in the call whose failed check asks for it, not in one of the next.

Of a condition that goes both ways each value has a version of its own. Stock makes the second one
when it first meets the second value; so does this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import CellType
from typing import Any

from torch._C._dynamo.eval_frame import set_eval_frame
from torch._dynamo.eval_frame import skip_code

from graphmend_bc.runtime.deoptimise import Deoptimizer, Recompiling, compiles_anew
from graphmend_bc.runtime.told_once import told_once

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
        former, chosen = set_eval_frame(None), run
        try:
            try:
                # Without a callback, nothing may be compiled beneath this call.
                if compiles_anew() and callable(former):
                    chosen = replace(original, recompiling=_with(former)).run
            except Exception as error:
                told_once("compiles a frame anew in a later call", error)
            return chosen(cells, values)
        finally:
            set_eval_frame(former)

    skip_code(deoptimise.__code__)
    return deoptimise


def _with(callback: Callable[..., Any]) -> Recompiling:
    """The code is called with Dynamo's callback on."""

    def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        set_eval_frame(callback)
        try:
            return function(*args, **kwargs)
        finally:
            set_eval_frame(None)

    return Recompiling(call, skip_code)
