"""Numbers and texts in the program's objects that a trace adds to without asking for them.

They are read right after the graph, where what was added is stored, so the compiled code does not
depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch._dynamo.codegen import PyCodegen
from torch._dynamo.variables.base import VariableTracker
from torch._guards import Source

from graphmend_bc.dynamo.host_values.host_value import HostVariable
from graphmend_bc.runtime import Site


class PlaceVariable(VariableTracker):
    """An object of the program's, of which only the place is known.

    Args:
        place: where generated code finds it.
    """

    _nonvar_fields: ClassVar[set[str]] = {"place", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(self, place: Source, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.place = place

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.place)


class DelayedVariable(HostVariable):
    """A value that is read after the graph although the trace could have it.

    Args:
        place: of what it is read from.
        trace: gives what Dynamo would trace in its place, and forgets that it is read later.
    """

    _nonvar_fields: ClassVar[set[str]] = {"place", "trace", *HostVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        kind: type,
        place: Source,
        trace: Callable[[], VariableTracker],
        **kwargs: Any,
    ) -> None:
        super().__init__(site, kind, **kwargs)
        self.place = place
        self.trace = trace


class StateVariable(DelayedVariable):
    """The value of an attribute, as it is when the graph has run."""

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.place)


class ItemVariable(DelayedVariable):
    """The value of an item of a dict, for the sum that takes its place.

    Args:
        key: of the item.
    """

    _nonvar_fields: ClassVar[set[str]] = {"key", *DelayedVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        kind: type,
        place: Source,
        trace: Callable[[], VariableTracker],
        key: object,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, kind, place, trace, **kwargs)
        self.key = key

    def reconstruct(self, codegen: PyCodegen) -> None:
        self.refuse("another statement")


def with_traced(args: Sequence[VariableTracker]) -> list[VariableTracker] | None:
    """The arguments of an operation as Dynamo would trace them; None if nothing is delayed."""
    delayed = [isinstance(arg, DelayedVariable) for arg in args]
    if not any(delayed):
        return None
    return [arg.trace() if isinstance(arg, DelayedVariable) else arg for arg in args]
