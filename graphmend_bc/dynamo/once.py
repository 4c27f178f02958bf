"""Functions that prepare a module the first time it is used.

Eager calls them in the first call of the frame; we do when the frame is compiled, which is just
before. Then the frame is traced anew, with the module as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import NestedUserFunctionVariable

from graphmend_bc.dynamo.compilation import Compilation, Trace
from graphmend_bc.dynamo.look import look
from graphmend_bc.dynamo.select import inline
from graphmend_bc.polyfills import polyfill_by
from graphmend_bc.preparations import preparation_by
from graphmend_bc.reasons import Refused
from graphmend_bc.runtime import Site


class Prepared(Exception):
    """A module was prepared; the frame has to be traced anew."""


def prepared(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    """What a function gives that finds its module prepared.

    Args:
        tx: translator of the function that was made one call.
        compilation: what is being compiled.
        site: the call.
        function: the copy of the function.
        args: its arguments.

    Raises:
        Prepared: the module was not prepared yet.
        Refused: the module could not be prepared, or eager Python might not do it.
    """
    assert isinstance(function, NestedUserFunctionVariable)
    if (polyfill := polyfill_by(function.get_code())) is not None:
        compilation.trace.used[site] = "polyfill"
        return inline(tx, polyfill, function, *args)
    preparation = preparation_by(function.get_code())
    model = getattr(args[0].realize(), "value", None) if len(args) == 1 else None
    if preparation is None or not isinstance(model, torch.nn.Module):
        raise Refused("once-not-sure", "The argument is no module.")
    if not preparation.is_done(model):
        if tx.export:
            raise Refused("under-export")
        if compilation.trace.arms or not _guesses_hold(tx, compilation.trace):
            raise Refused("once-not-sure", "It depends on a condition.")
        preparation.function(model)
        if not preparation.is_done(model):  # another version of the function; not called again
            raise Refused("once-not-sure", "It did not prepare the module.")
        raise Prepared(f"{type(model).__name__} was prepared at {site}.")
    compilation.trace.used[site] = "once"
    return function.call_function(tx, list(args), {})


def _guesses_hold(tx: InstructionTranslatorBase, trace: Trace) -> bool:
    """True if what was guessed so far is known to be right in this call."""
    return all(look(tx, trace, wrong) is False for _, wrong in trace.guesses)
