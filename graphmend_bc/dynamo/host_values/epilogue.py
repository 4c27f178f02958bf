"""Calls that Dynamo's generated code makes right after a graph.

They are put among the `debug_locals` of the root translator, which run after the graph and before
side effects are replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType, MethodDescriptorType
from typing import Any, ClassVar

import torch
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.frames.profiler_labels import annotated_epilogue
from graphmend_bc.dynamo.trace.compilation import is_saving

_BUILTINS = (BuiltinFunctionType, MethodDescriptorType)


class EpilogueCallVariable(VariableTracker):
    """A function of ours that generated code calls; nothing inside it is compiled.

    Args:
        prefix: how the global that holds it is named; it lives as long as the generated
            code lives.
        function: the function.
    """

    _nonvar_fields: ClassVar[set[str]] = {"prefix", "function", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(self, prefix: str, function: Callable[..., Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.prefix = prefix
        self.function = function
        # What is saved holds it as it is; nothing is compiled where that runs, nor in a builtin.
        if not (is_saving() or isinstance(function, _BUILTINS)):
            self.function = torch._dynamo.disable(annotated_epilogue(function))  # type: ignore[no-untyped-call]

    def reconstruct(self, codegen: PyCodegen) -> None:
        name = codegen.tx.output.install_global_by_id(self.prefix, self.function)
        codegen.append_output(codegen.create_load_global(name, add=True))
