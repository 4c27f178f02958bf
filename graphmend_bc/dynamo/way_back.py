"""Give the generated code of a speculating frame its way back to the original code."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
import torch._dynamo
from torch._C._dynamo.eval_frame import reset_code

from graphmend_bc.dynamo.annotations import deoptimisation
from graphmend_bc.rewriting.deopt import with_way_back
from graphmend_bc.runtime.deopt import Deoptimizer, Miss

log = logging.getLogger("graphmend_bc")


def give_way_back(
    result: Any, code: CodeType, module_globals: dict[str, Any], on_miss: Callable[[], None]
) -> None:
    """Wrap the bytecode of a `compile_frame` result, in place.

    Args:
        result: what Dynamo's `compile_frame` returned.
        code: the frame's own code object.
        module_globals: the frame's globals.
        on_miss: told of each miss.
    """
    # Switched off for the deoptimizer's own frame too: it would be compiled like any other.
    run = deoptimisation(Deoptimizer(code, module_globals, on_miss).run, code)
    deoptimizer = torch._dynamo.disable(run)  # type: ignore[no-untyped-call]
    result.bytecode = with_way_back(result.bytecode, code, deoptimizer)


def retreating(graph: Callable[..., Any]) -> Callable[..., Any]:
    """The same graph; if it raises, the frame's original code runs instead."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        grad = torch.is_grad_enabled()
        try:
            return graph(*args, **kwargs)
        except Exception as error:
            # A graph switches grad mode for the user's `with` blocks, and was stopped inside one.
            torch.set_grad_enabled(grad)
            log.info("A compiled graph raised %r; the original code of its frame runs.", error)
            raise Miss from error

    return run_graph


def forget_compiled(code: CodeType) -> None:
    """Make Dynamo compile a code object anew at its next call."""
    reset_code(code)
