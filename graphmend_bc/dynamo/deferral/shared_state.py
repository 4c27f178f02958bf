"""Deferred calls whose stream, handler, filter or hook is the program's own code.

Such code may change what the function reads after the call, and sees what it changed before. So
what the call may reach is compared with what the trace has touched; a guard does so again in every
call, for both may be others then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._guards import Source

from graphmend_bc.catalog.observers import Observer
from graphmend_bc.dynamo.calls.callees import owner_of
from graphmend_bc.dynamo.deferral.touched_state import Values, touched_by
from graphmend_bc.dynamo.graph.lambda_guards import Reader, guard_by, reader, value_at
from graphmend_bc.dynamo.host_values.argument_snapshots import lasts
from graphmend_bc.dynamo.host_values.autograd_repr import AutogradReprVariable
from graphmend_bc.dynamo.host_values.passed_objects import changed_objects, is_fixed
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effect_targets import only_writes, reach_of, targets_of
from graphmend_bc.runtime.deferral.reach import Reach


@dataclass(frozen=True, slots=True)
class Call:
    """A deferred call, and where it finds what it runs.

    Attributes:
        module: of the function; None if it is the program's own.
        owner, stream: positions of the object whose method it is and of the stream, among the
            places of all calls; None if there is none.
        others: positions of what else may be reached.
        given: attributes by which a handler gets at the arguments that somebody may change.
        stored: attributes and globals that the function had assigned before.
        trusted: whether the user said that it only observes.
    """

    module: str | None
    owner: int | None
    stream: int | None
    others: tuple[int, ...]
    given: frozenset[str]
    stored: frozenset[str]
    trusted: bool

    def targets(self, values: Values) -> list[object]:
        """The objects whose code runs."""
        own = [values[index] for index in self.others]
        if self.module is None:
            return own
        owner, stream = (None if i is None else values[i] for i in (self.owner, self.stream))
        return [*targets_of(self.module, owner, stream), *own]

    def problem(self, found: Reach, names: frozenset[str], touched: Iterable[object]) -> str:
        """Why the call must stay where it is; empty if it need not.

        Args:
            found: what it may reach.
            names: attributes and globals that the trace has read.
            touched: objects that the trace has looked into.
        """
        if found.unknown:
            return "" if self.trusted else f"Its own code may do anything: {found.unknown}"
        if found.asks(self.given):
            return "Its own code may change the arguments."
        if found.asks(self.stored):
            return "Its own code may read what the function has changed before."
        if shared := sorted(found.stores & names):
            return f"Its own code assigns '{shared[0]}', which the function uses."
        if any(id(each) in found.objects for each in touched):
            return "Its own code may change an object that the function uses."
        return ""


@dataclass(frozen=True, slots=True)
class Shared:
    """What a call that is deferred is made of.

    Attributes:
        callee: what is called; None if it is made after the graph.
        function: the object behind it.
        observer: what is known of it.
        values: the arguments as they are kept, by name or position.
        objects: those that are passed as they are.
    """

    callee: VariableTracker | None
    function: object
    observer: Observer
    values: Mapping[Any, VariableTracker]
    objects: Sequence[VariableTracker] = ()

    @property
    def module(self) -> str:
        """Name of the function's module."""
        return getattr(self.function, "__module__", None) or ""

    @property
    def stream(self) -> VariableTracker | None:
        """The stream that is given."""
        return self.values.get(self.observer.stream)

    @property
    def runs_own_code(self) -> bool:
        """Whether the function is the program's."""
        return self.observer.objects == "read" or hasattr(self.function, "cache_info")

    @property
    def roots(self) -> list[VariableTracker]:
        """What code runs of, or is given to such code."""
        own = [self.callee] if self.callee is not None and self.runs_own_code else []
        shows = self.module in ("warnings", "_warnings")
        return [*own, *self.objects] if own or shows else []

    @property
    def given(self) -> frozenset[str]:
        """By which attributes of a LogRecord a handler gets at what it may change."""
        logs = self.module in ("logging", "absl.logging") or hasattr(self.function, "cache_info")
        if not (logs and any(map(_may_change, self.values.values()))):
            return frozenset()
        extra = self.values.get("extra")
        keys = [key.vt.as_python_constant() for key in getattr(extra, "items", ())]
        return frozenset({"args", "msg", *map(str, keys)})


def _may_change(value: VariableTracker) -> bool:
    """True for an argument that is no plain value, and not made of such."""
    if isinstance(value, (TupleVariable, ConstDictVariable)):
        items = value.items
        return any(map(_may_change, items if isinstance(items, list) else items.values()))
    stays = lasts(value) and not isinstance(value, AutogradReprVariable)
    return not (stays or isinstance(value, StringFormatVariable) or is_fixed(value))


@dataclass(slots=True, eq=False)
class SharedState(Feature):
    """The deferred calls of an attempt.

    Attributes:
        places: where the objects are that they run, or reach.
        calls: each with its site.
        runs_own_code: whether one of them runs code of the program's.
    """

    order: ClassVar[int] = 90  # what ends the graph may touch more

    places: list[Source] = field(default_factory=list)
    calls: list[tuple[Site, Call]] = field(default_factory=list)
    runs_own_code: bool = False

    def note(self, tx: InstructionTranslatorBase, site: Site, shared: Shared) -> None:
        """Note a call.

        Raises:
            Refused: it could be told that it is made later.
        """
        roots = (self._place(root) for root in shared.roots)
        call = Call(
            None if shared.runs_own_code else shared.module,
            self._place(None if shared.callee is None else owner_of(shared.callee)),
            self._place(shared.stream),
            tuple(root for root in roots if root is not None),
            shared.given,
            _stored_names(tx),
            shared.observer.objects == "read",
        )
        targets = call.targets([value_at(tx, place) for place in self.places])
        changed = changed_objects(tx).keys()
        if changed and not changed.isdisjoint(reach_of(targets).objects):
            raise Refused("effect-shares", "The function has changed what it writes to before.")
        plain = all(map(only_writes, targets))
        if not plain and (problem := call.problem(reach_of(targets), frozenset(), ())):
            raise Refused("effect-shares", problem)
        self.calls.append((site, call))

    def _place(self, value: VariableTracker | None) -> int | None:
        """The position of a value's place; None if it is no object that was there before."""
        source = None if value is None else value.source
        if source is None:
            return None
        if source not in self.places:
            self.places.append(source)
        return self.places.index(source)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse calls that share something with the rest of the trace, and guard on that."""
        values = [value_at(tx, place) for place in self.places]
        names, touched, unplaced = frozenset[str](), dict[Source, object](), False
        own = [
            (site, call)
            for site, call in self.calls
            if not all(map(only_writes, call.targets(values)))
        ]
        self.runs_own_code = bool(own)
        if own:
            names, touched, unplaced = touched_by(tx)
        for site, call in own:
            problem = call.problem(reach_of(call.targets(values)), names, touched.values())
            if not problem and unplaced:
                problem = "It is not known where the function has an object from."
            if problem:
                raise SiteRefused(Refused("effect-shares", problem), site)
        if compilation.is_saved:
            if own:
                problem = "It reaches objects of the program, which no saved guard asks for."
                raise SiteRefused(Refused("under-export", problem), own[0][0])
            return
        calls = tuple(dict.fromkeys(call for _, call in self.calls))
        _guard(reader(self.places), calls, names, reader(touched), bool(own))


def _guard(
    places: Reader, calls: Sequence[Call], names: frozenset[str], touched: Reader, compares: bool
) -> None:
    """Guard on what deferred calls reach: nothing of the program's, or nothing that it uses."""

    def holds(local: Any, scope: Any) -> bool:
        values, used = places(local, scope), touched(local, scope)
        for call in calls:
            targets = call.targets(values)
            if not all(map(only_writes, targets)) and (
                not compares or call.problem(reach_of(targets), names, used)
            ):
                return False
        return True

    guard_by(holds, "deferred calls reach nothing that the function uses")


def _stored_names(tx: InstructionTranslatorBase) -> frozenset[str]:
    """The attributes and globals that a trace has assigned so far, of what was there before."""
    stores = tx.output.side_effects.store_attr_mutations
    changed = changed_objects(tx).values()
    return frozenset(name for item in changed for name in stores.get(item, {}))
