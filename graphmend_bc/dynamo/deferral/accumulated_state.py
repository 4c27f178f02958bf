"""State that a trace only adds to: `m.n += 1`, `m.values.append(v)`, `m.counts[key] += 1`.

Dynamo guards on what it reads, so a frame that stores what it has read is compiled anew in each
call. Here nothing is read while tracing: the sum is made after the graph, from what is there then.
What the compiled code assumes of the state is its type, and that nothing else in the trace reads
or changes it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

from torch._dynamo.side_effects import SideEffects
from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._guards import Source

from graphmend_bc.dynamo.deferral.touched_state import places_named, touched_by
from graphmend_bc.dynamo.graph.lambda_guards import asking, guard_by, value_at
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.signal_handlers import pass_on

VALUES: Final = (int, float, str)
_SETTINGS: Final = frozenset(
    {
        *("disabled", "_disable", "level", "name", "propagate"),
        *("edgeitems", "linewidth", "precision", "sci_mode", "threshold"),
    }
)
"""Attributes by which loggers, and texts of tensors, go after the graph."""

_INT64: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class StatePlace:
    """What is added to.

    Attributes:
        site: where.
        place: of a number or a text, or of the container that is added to.
        kind: its type.
        owner: the place of the object whose attribute it is; None for a container.
        name: of the attribute; of a dict, the key that is added to.
        item: the type of what a dict has there; None but for a dict.
    """

    site: Site
    place: Source
    kind: type
    owner: Source | None = None
    name: Any = ""
    item: type | None = None


def is_known(value: object) -> bool:
    """False for a number that no float may be able to hold."""
    return type(value) is not int or value in _INT64


@dataclass(slots=True, eq=False)
class AccumulatedState(Feature):
    """The state that an attempt adds to.

    Attributes:
        found: each place, with what is assumed of it.
        lazies: the containers among them, as Dynamo would trace them.
        appended: lists, by their identity: where the first thing was added, and all of them.
        grown: what stands for such a list that the trace looks into, by the name of its place.
        joined: inputs of the graph that are made of such lists.
    """

    order: ClassVar[int] = 91  # after `SharedState`: what ends the graph may touch more

    found: list[StatePlace] = field(default_factory=list)
    lazies: list[tuple[StatePlace, LazyVariableTracker]] = field(default_factory=list)
    appended: dict[int, tuple[StatePlace, list[VariableTracker]]] = field(default_factory=dict)
    grown: dict[str, Any] = field(default_factory=dict)
    joined: dict[Hashable, VariableTracker] = field(default_factory=dict)

    def looked_into(self, effects: SideEffects) -> list[Site]:
        """Where containers are added to that the trace has looked into.

        Args:
            effects: of the trace.
        """
        known = effects.id_to_variable
        used = (
            state.site
            for state, lazy in self.lazies
            if lazy.is_realized() or id(lazy.peek_value()) in known
        )
        return list(dict.fromkeys(used))

    def _is_looked_into(
        self, state: StatePlace, lazy: LazyVariableTracker, known: Mapping[int, VariableTracker]
    ) -> bool:
        """Whether the trace rests on what is in a container."""
        stands = self.grown.get(state.place.name)
        if lazy.is_realized():
            return stands is None or lazy.realize() is not stands
        found = known.get(id(lazy.peek_value()))
        return found is not None and found is not stands

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse state that the trace reads or changes in another way, and guard on that."""
        if not self.found:
            return
        names, touched, unplaced = touched_by(tx)
        touched = {place: value for place, value in touched.items() if place.name not in self.grown}
        for state in self.found:
            if state.owner is not None and self._is_used(tx, state, names):
                raise _used(state, f"'{state.name}' is used elsewhere in what is compiled.")
        if self.lazies:
            self._check_containers(tx, touched.values(), names, unplaced=unplaced)
        _guard(tuple(self.found), [*touched], apart=bool(self.grown))

    def _check_containers(
        self,
        tx: InstructionTranslatorBase,
        touched: Collection[object],
        names: Container[str],
        *,
        unplaced: bool,
    ) -> None:
        """Refuse containers that the trace has looked into, or may have."""
        others = set(map(id, touched))
        proxied = any(isinstance(value, MappingProxyType) for value in touched)
        known = tx.output.side_effects.id_to_variable
        for state, lazy in self.lazies:
            looked_into = self._is_looked_into(state, lazy, known)
            if looked_into or id(value_at(tx, state.place)) in others:
                raise _used(state, "It is used elsewhere in what is compiled.")
            if state.item is None:
                continue
            if proxied:
                raise _used(state, "A proxy that the function uses may be one of it.")
            # The dict may be that of an object, or of a module.
            if state.name in names or state.name in _SETTINGS:
                raise _used(state, f"'{state.name}' may be an attribute that is used elsewhere.")
        if unplaced:
            raise _used(self.found[0], "It is not known where the function has an object from.")

    def _is_used(
        self, tx: InstructionTranslatorBase, state: StatePlace, names: Container[str]
    ) -> bool:
        """Whether the trace reads or stores an attribute that may be this one in another way."""
        assert state.owner is not None
        kind, name = type(value_at(tx, state.owner)), state.name
        own = {known.owner for known in self.found if known.name == name}
        for item, values in tx.output.side_effects.store_attr_mutations.items():
            if name in values and item.source not in own and _may_be(item, kind):
                return True
        return name in names and any(
            not isinstance(place, AttrSource) or _type_at(tx, place.base) in (None, kind)
            for place in places_named(tx, name)
        )


def _may_be(item: VariableTracker, kind: type) -> bool:
    """True for an object of a type, and for a class, which may give it the attribute."""
    return item.python_type() is kind or isinstance(getattr(item, "value", None), type)


def _type_at(tx: InstructionTranslatorBase, place: Source) -> type | None:
    """The type of what is at a place; None if that is not known."""
    try:
        return type(value_at(tx, place))
    except Exception as error:
        pass_on(error)
        return None


def _used(state: StatePlace, detail: str) -> SiteRefused:
    return SiteRefused(Refused("state-used", detail), state.site)


def _guard(found: Sequence[StatePlace], touched: Sequence[Source], *, apart: bool) -> None:
    """Guard on the types of state, and on no other object of the trace being the same.

    One expression is made of it, for it is computed before each call.

    Args:
        found: the state.
        touched: where the trace has found what changes in place.
        apart: whether no two containers may be one.
    """
    given = dict[str, Any]()
    asked = [text for number, state in enumerate(found) for text in _asks(number, state, given)]
    asked += _asks_apart(found)
    containers = [f"id(value{n})" for n, state in enumerate(found) if state.owner is None]
    if apart:
        places = {state.place.name for state in found if state.owner is None}
        asked.append(f"len({{{', '.join(containers)}}}) == {len(places)}")
    if containers and touched:
        others = "".join(f"{place.name}, " for place in touched)
        asked.append(f"{{{', '.join(containers)}}}.isdisjoint(map(id, ({others})))")
    holds = asking(" and ".join(asked), given)
    guard_by(holds, "state that is added to is of the same type, and used for nothing else")


def _asks(number: int, state: StatePlace, given: dict[str, Any]) -> Iterator[str]:
    """What is asked of one place; the types are among what the expression is given."""
    given[f"kind{number}"] = state.kind
    yield f"type(value{number} := {state.place.name}) is kind{number}"
    last, kind = f"value{number}", state.kind
    if state.item is not None:
        given |= {f"item{number}": state.item, f"key{number}": state.name}
        last, kind = f"found{number}", state.item
        yield f"type({last} := value{number}.get(key{number})) is item{number}"
    if kind is int:
        yield f"{_INT64.start} <= {last} < {_INT64.stop}"


def _asks_apart(found: Sequence[StatePlace]) -> Iterator[str]:
    """That no two objects are one of which the same attribute is added to."""
    for name in dict.fromkeys(state.name for state in found if state.owner is not None):
        owners = [state.owner for state in found if state.owner is not None and state.name == name]
        if len(owners) > 1:
            ids = ", ".join(f"id({owner.name})" for owner in owners)
            yield f"len({{{ids}}}) == {len(owners)}"
