"""The last `with` block of a function, run when all that the function has changed is in its place.

    with warmup.dampening():    nothing of it is traced: it is a function of the program's own code
        schedule.step()
    return loss.detach()        only hands out what the block cannot change

The block may change anything. So a tensor that is read after it must be one that nobody else has.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import (
    AttributeMutationNew,
    ValueMutationNew,
    VariableTracker,
)
from torch._dynamo.variables.functions import NestedUserFunctionVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.dynamo.calls.callees import places
from graphmend_bc.dynamo.deferral.final_calls import LastCall, note_last, stays_itself
from graphmend_bc.dynamo.deferral.final_places import (
    check_may_be_last,
    is_last,
    is_made,
    written_at,
)
from graphmend_bc.dynamo.graph.fx_nodes import input_storages, storages, tensors_of
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.lifting.last_blocks import last_block_around
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effects import Effect


def final_block(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    """Note the block; see `OutlinedHandler`.

    Raises:
        Refused: what follows may read what it changes, or it may not run.
    """
    check_may_be_last(tx, compilation)
    where = places(tx, site)
    if (written := written_at(tx)) is None:
        raise Refused("call-not-last", "The block is not found in the program's code.")
    code, offset = written
    if not is_last(tx, last_block_around(graph_of(code), offset).tail, _is_own):
        raise Refused("call-not-last", "More than a result follows the block.")
    assert isinstance(function, NestedUserFunctionVariable)
    cells = [] if function.closure is None else function.closure.unpack_var_sequence(tx)
    for value in (*args, *cells):
        known = value.realize()
        if not stays_itself(known) or (isinstance(known, TensorVariable) and known.source is None):
            raise Refused("effect-argument", "It is given an object that the function made.")
    # The block runs in a frame of its own, which stands for the innermost one.
    call = LastCall(site, function, list(args), {})
    return note_last(tx, compilation, call, Effect(where[1:], len(where) - 1))


def _is_own(frame: InstructionTranslatorBase, name: str) -> bool:
    """Whether a local variable holds a tensor that nothing outside of the function can reach."""
    if not is_made(frame, name):
        return False
    output, value = frame.output, frame.symbolic_locals[name].realize()
    mine = storages([value.as_proxy().node])
    return mine.isdisjoint(input_storages(output.graph)) and not any(
        tensor.grad_fn is not None or storage_of(tensor) in mine for tensor in _stored(output)
    )


def _stored(output: OutputGraph) -> list[torch.Tensor]:
    """Tensors that the function has put where others may find them; a history holds more."""
    found: list[torch.Tensor] = []

    def note(value: VariableTracker) -> None:
        if isinstance(value, TensorVariable):
            found.extend(tensors_of(value.as_proxy().node))

    effects = output.side_effects
    there = [
        value
        for value in effects.id_to_variable.values()
        if not isinstance(value, TensorVariable)
        and not isinstance(value.mutation_type, (AttributeMutationNew, ValueMutationNew))
    ]
    set_on = [dict(names) for names in effects.store_attr_mutations.values()]
    VariableTracker.visit(note, [there, set_on, [*effects.tensor_hooks.values()]])
    return found
