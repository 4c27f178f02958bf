"""Numbers and texts in the program's objects that a trace adds to without asking for them.

They are read right after the graph, where what was added is stored, so the compiled code does not
depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

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


class StateVariable(HostVariable):
    """The value of an attribute, as it is when the graph has run.

    Args:
        place: of the attribute.
        check: refuses the site if something was done since the attribute was read.
        trace: gives what Dynamo would trace in its place, and forgets that it is read later.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        "place",
        "check",
        "trace",
        *HostVariable._nonvar_fields,
    }

    def __init__(
        self,
        site: Site,
        kind: type,
        place: Source,
        check: Callable[[], None],
        trace: Callable[[], VariableTracker],
        **kwargs: Any,
    ) -> None:
        super().__init__(site, kind, **kwargs)
        self.place = place
        self.check = check
        self.trace = trace

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.place)


class ItemVariable(StateVariable):
    """The value of an item of a dict, for the sum that takes its place.

    Args:
        key: of the item.
    """

    _nonvar_fields: ClassVar[set[str]] = {"key", *StateVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(self, *args: Any, key: object, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.key = key

    def reconstruct(self, codegen: PyCodegen) -> None:
        self.refuse("another statement")


def check_moments(args: Sequence[VariableTracker]) -> None:
    """Refuse a sum between whose two operands something was done: it may have changed the first.

    Raises:
        SiteRefused: something was.
    """
    for arg in args:
        if issubclass(type(arg), StateVariable):  # isinstance() realizes lazy variables
            cast(StateVariable, arg).check()


def with_traced(args: Sequence[VariableTracker]) -> list[VariableTracker] | None:
    """The arguments of an operation as Dynamo would trace them; None if nothing is delayed."""
    if not any(isinstance(arg, StateVariable) for arg in args):
        return None
    return [arg.trace() if isinstance(arg, StateVariable) else arg for arg in args]
