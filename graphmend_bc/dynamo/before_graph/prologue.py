"""Calls that Dynamo's generated code makes before a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._guards import Source


def call_in_prologue(
    tx: InstructionTranslatorBase,
    function: Callable[..., Any],
    arguments: Sequence[Source],
    prefix: str,
) -> str:
    """Have a function called before the graph that is being traced, once.

    Args:
        tx: translator of the frame.
        function: what is called; nothing inside it is compiled.
        arguments: where its arguments are found.
        prefix: of the names that generated code has for it.

    Returns:
        The variable of the generated code that holds the result.
    """
    output = tx.output
    local = output.new_var(prefix)
    codegen = PyCodegen(output.root_tx)
    # Called from generated code, where Dynamo would compile it like any other function.
    disabled = torch._dynamo.disable(function)  # type: ignore[no-untyped-call]
    name = output.install_global(f"__gm_{prefix}", disabled)
    codegen.add_push_null(lambda: codegen.append_output(codegen.create_load_global(name, add=True)))
    for argument in arguments:
        codegen(argument)
    codegen.extend_output(create_call_function(len(arguments), False))
    codegen.store(local)
    output.pregraph_bytecode.extend(codegen.get_instructions())
    return local
