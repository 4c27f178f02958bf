"""Hooks of tensors that a frame makes: torch 2.11 puts other tensors in their place.

An autograd function takes the place of the tensor in all that was traced so far, and it raises
nothing where eager Python does because no gradient is recorded. Stock mostly breaks the graph
before that matters; a mended frame does at the hook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo import compiled_autograd
from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.arguments import Translator
from graphmend_bc.dynamo.trace.compilation import current


def register_hook(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable._method_register_hook`: both kinds of hooks."""

    def _method_register_hook(self: Any, tx: Translator, name: str, hook: VariableTracker) -> Any:
        compilation = current()
        if (
            compilation is not None
            and compilation.trace.mended
            and not self.source
            and not compiled_autograd.compiled_autograd_enabled
        ):
            unimplemented(
                gb_type="Hook of a tensor that is made in the graph",
                context=f"{name} {hook}",
                explanation="In one graph with mended code it is not what eager Python runs.",
                hints=[],
            )
        return stock(self, tx, name, hook)

    return _method_register_hook
