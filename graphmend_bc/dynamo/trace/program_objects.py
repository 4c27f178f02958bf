"""The program's own objects among those that Dynamo tracks the changes of."""

from __future__ import annotations

from collections.abc import Iterator

from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.base import (
    AttributeMutationExisting,
    ValueMutationExisting,
    VariableTracker,
)

_EXISTING = (ValueMutationExisting, AttributeMutationExisting)


def existing(effects: SideEffects) -> Iterator[tuple[object, VariableTracker]]:
    """The program's objects that Dynamo has met, with their variables."""
    for item in effects.keepalive:
        variable = effects.id_to_variable.get(id(item))
        if variable is not None and isinstance(variable.mutation_type, _EXISTING):
            yield item, variable


def object_of(effects: SideEffects, variable: VariableTracker) -> object:
    """The program's object for a variable; None if Dynamo does not have it any more."""
    return next((item for item, met in existing(effects) if met is variable), None)
