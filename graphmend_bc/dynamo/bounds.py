"""Bounds of slices: tensors among them become numbers, as Dynamo would make them too."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.dynamo.compilation import Compilation
from graphmend_bc.dynamo.hoist import HoistedCalleeVariable
from graphmend_bc.runtime import Site


def bounded(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, bounds: VariableTracker
) -> VariableTracker:
    """The bounds with numbers for tensors.

    Args:
        tx: translator of the frame.
        compilation: what is being compiled.
        site: where the slice is made.
        bounds: a tuple.

    Raises:
        Refused: a number cannot be computed before the graph.
    """
    hoisted = HoistedCalleeVariable(site, BuiltinVariable(slice), compilation)
    return TupleVariable([hoisted.number(tx, item) for item in bounds.unpack_var_sequence(tx)])
