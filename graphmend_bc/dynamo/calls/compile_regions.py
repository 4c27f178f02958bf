"""Regions that are to be compiled once, where something in one breaks the graph: they are inlined.

@torch.compiler.nested_compile_region     changes nothing in eager Python; stock raises an error
def forward(self, x): print(x.sum())      if the graph breaks inside: a region is captured whole
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, cast

from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import FunctoolsPartialVariable

from graphmend_bc import config
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.trace.compilation import Compilation, RegionBreaks, current

STRATEGY = "inline"
_TORCH = "torch."


def call_region(stock: Callable[..., Any]) -> Callable[..., Any]:
    """The operator that calls a region: the region itself, if its graph is known to break."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        compilation = current()
        code = _code_of(args[0]) if args else None
        if compilation is None or code is None or not _may_inline(compilation, tx):
            return cast(VariableTracker, stock(self, tx, args, kwargs))
        # Dynamo takes the graph of an earlier call, whatever has changed since. Where stock would
        # have broken the graph between the two, it captures the region anew.
        if compilation.planner.inlines(code) or compilation.is_mended:
            _note(compilation, tx)
            return args[0].call_function(tx, args[1:], kwargs)
        try:
            return cast(VariableTracker, stock(self, tx, args, kwargs))
        except (exc.Unsupported, exc.UncapturedHigherOrderOpError) as error:
            raise RegionBreaks(code) from error

    return call_function


def _may_inline(compilation: Compilation, tx: Translator) -> bool:
    """Also where nothing else is mended: a frame may be left to stock once it was mended."""
    is_on = compilation.may_mend or compilation.planner.may_inline()
    return is_on and not tx.export and STRATEGY in config.strategies


def _code_of(region: VariableTracker) -> CodeType | None:
    """The code of a function, module or other object that is called as a region, if it has any."""
    region = region.realize()
    if isinstance(region, FunctoolsPartialVariable):
        return _code_of(region.func)
    kind = type(getattr(region, "value", None))
    methods = (getattr(kind, name, None) for name in ("forward", "__call__"))
    function = next(filter(None, methods), None)
    if hasattr(region, "get_function"):
        function = region.get_function()
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _note(compilation: Compilation, tx: InstructionTranslatorBase) -> None:
    """Report the call in the program: torch's own functions are around the operator."""
    frame: InstructionTranslatorBase | None = tx
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(_TORCH):
        frame = frame.parent
    found = None if frame is None else instruction_of(frame)
    if found is not None:
        compilation.trace.used[compilation.planner.site_at(*found)] = STRATEGY
