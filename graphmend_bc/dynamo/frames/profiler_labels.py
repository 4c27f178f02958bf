"""Names for what mended code does, in torch.profiler's trace, and the frames of a deoptimisation.

A range is recorded only while torch's profiler runs; otherwise each of these functions costs one
look at a flag.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import CodeType
from typing import Any

import torch._dynamo
from torch._C._profiler import _RecordFunctionFast
from torch._dynamo.output_graph import OutputGraph
from torch.autograd import profiler
from torch.fx._lazy_graph_module import _LazyGraphModule

from graphmend_bc.code.resume_names import in_words
from graphmend_bc.dynamo.frames.stack_room import with_stack_room
from graphmend_bc.runtime.deferral.effects import Effect

#: All names in traces begin with this.
PREFIX = "graphmend_bc"


class _Deoptimised(threading.local):
    """How many frames of a thread run their original code because their graph was of no use.

    Nothing beneath them is handed to Dynamo: it was compiled code that sent them there.
    """

    depth = 0


deoptimised = _Deoptimised()


def graph_with_label(
    graph: Callable[..., Any], output: OutputGraph, launched: int
) -> Callable[..., Any]:
    """The same graph; its calls are named after the frame it was compiled from.

    Args:
        graph: what the backend returned, possibly wrapped.
        output: Dynamo's side of it. A graph that goes into a precompiled package is returned as
            it is, since the package is to hold the backend's own.
        launched: operators that it runs on an accelerator.
    """
    if getattr(output, "package", None) is not None:
        return graph
    called = with_stack_room(_generated(graph), launched)
    return _named(called, f"{PREFIX} graph of {_title(output.root_tx.f_code)}")


def without_torchs_marks(leaves_out: bool) -> AbstractContextManager[Any]:
    """A block in which generated code does not tell a profiler what it does before a graph.

    It would call two functions of torch's beneath `torch._dynamo.disable` in each call, whether a
    profiler runs or not, which takes as long as an operator. The graph has a label of ours.

    Args:
        leaves_out: False for a block that changes nothing.
    """
    if not leaves_out:
        return nullcontext()
    settings: Any = torch._dynamo.config
    block: AbstractContextManager[Any] = settings.patch(record_runtime_overhead=False)
    return block


def annotated_epilogue(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function; its calls are named as a call that was put off until after a graph.

    Args:
        function: what generated code calls after a graph.
    """
    inner = function.func if isinstance(function, functools.partial) else function
    made = getattr(inspect.unwrap(inner), "__self__", None)
    name = f"{PREFIX} epilogue {inner.__module__}.{inner.__qualname__}"
    if isinstance(made, Effect) and made.places:
        place = made.places[0]
        name = f"{name} of {in_words(place.qualname)} ({place.filename}:{place.lineno})"
    return _named(function, name)


def deoptimisation(run: Callable[..., Any], code: CodeType) -> Callable[..., Any]:
    """The same function; meanwhile `deoptimised` counts it, and its calls are named.

    Args:
        run: runs a frame's original code.
        code: that code.
    """
    named = _named(run, f"{PREFIX} deoptimisation of {_title(code)}")

    def deoptimise(*args: Any, **kwargs: Any) -> Any:
        deoptimised.depth += 1
        try:
            return named(*args, **kwargs)
        finally:
            deoptimised.depth -= 1

    return deoptimise


def _generated(graph: Callable[..., Any]) -> Callable[..., Any]:
    """The same graph with its code generated, where torch would put that off until it is called.

    Dynamo does this to what `call_user_compiler` returns; it cannot see it behind a wrapper.
    """
    module = graph if isinstance(graph, _LazyGraphModule) else getattr(graph, "__self__", None)
    if not isinstance(module, _LazyGraphModule):
        return graph
    _LazyGraphModule.force_recompile(module)
    is_forward = getattr(graph, "__name__", "") == "_lazy_forward"
    return module.forward if is_forward else graph


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    # Without the attributes: torch._dynamo.disable() would look through the wrapper by them.
    @functools.wraps(function, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if not profiler._is_profiler_enabled:
            return function(*args, **kwargs)
        with _RecordFunctionFast(name):
            return function(*args, **kwargs)

    return call


def _title(code: CodeType) -> str:
    return f"{in_words(code.co_qualname)} ({code.co_filename}:{code.co_firstlineno})"
