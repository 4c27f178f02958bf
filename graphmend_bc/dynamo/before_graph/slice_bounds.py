"""Bounds of slices: tensors among them become numbers, as Dynamo would make them too."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.dynamo.before_graph.hoist import HoistedCalleeVariable
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Marker


def slice_with_bounds(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the bounds with numbers for tensors, where these can be had before the graph."""
    hoisted = HoistedCalleeVariable(marker.site, BuiltinVariable(slice), compilation)
    try:
        return TupleVariable([hoisted.number(tx, item) for item in args[0].unpack_var_sequence(tx)])
    except Refused as refused:
        compilation.trace.refused[marker.site] = refused
        return args[0]
