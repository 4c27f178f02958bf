"""Numbers that torch draws and the trace needs, such as those that a loop counts to.

    for layer in layers[: torch.randint(1, 3, ()).item()]:

If there are few that it may be, each has a compiled version of its own.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable

from graphmend_bc import config
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.random_draws.foreseen_constants import foreseen_constant
from graphmend_bc.dynamo.random_draws.odds import outcomes_of
from graphmend_bc.reporting.reasons import Refused

READS: Final = ("item", "tolist", "int", "float")
"""Names of what makes numbers of a tensor."""


def _number(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What a read gives, as a constant; None for another call."""
    tensor, name = _read(callee.callee.realize(), args)
    if tensor is None or name not in READS or kwargs:
        return None
    node = tensor.as_proxy().node

    def finish(value: torch.Tensor) -> Any:
        return {"int": int, "float": float}[name](value) if args else getattr(value, name)()

    found = outcomes_of(tx, callee.compilation.trace, node, finish)
    count = len(set(map(repr, found)))
    if not found:
        raise Refused("hoist-not-input", "It rests on more than random draws.")
    if count > config.hoist_limit:
        raise Refused("hoist-not-input", "It is one of many random numbers.")
    label = f"{callee.site.name}:{callee.site.lineno} {name} of {node.name}"
    value = foreseen_constant(tx, callee.compilation, callee.site, node, finish, label)
    known: VariableTracker = VariableTracker.build(tx, value)
    return known


drawn_number = known_call("draw", _number)


def _read(callee: VariableTracker, args: Args) -> tuple[VariableTracker | None, str]:
    """The tensor that is read, and by what."""
    if isinstance(callee, BuiltinVariable) and callee.fn in (int, float) and len(args) == 1:
        return _plain(args[0]), callee.fn.__name__
    read = None if args else facts.method_read(callee)
    return (None, "") if read is None else (_plain(read[0]), read[1])


def _plain(value: VariableTracker) -> VariableTracker | None:
    return value if is_plain(value := value.realize()) else None
