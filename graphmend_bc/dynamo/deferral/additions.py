"""Instructions that add to state: what is read there, and the addition made after the graph."""

from __future__ import annotations

import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Container
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, ClassVar, Final

from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, places
from graphmend_bc.dynamo.calls.markers import marker_as_python, read_attribute
from graphmend_bc.dynamo.deferral.accumulated_state import (
    VALUES,
    AccumulatedState,
    StatePlace,
    is_known,
)
from graphmend_bc.dynamo.host_values.chosen_value import ChosenVariable
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.host_values.epilogue_calls import Note
from graphmend_bc.dynamo.host_values.host_value import ComputedVariable, HostVariable
from graphmend_bc.dynamo.host_values.passed_objects import changed_objects
from graphmend_bc.dynamo.host_values.state_value import ItemVariable, PlaceVariable, StateVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import is_under_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.accumulations import METHODS
from graphmend_bc.runtime import CalledOperation, GetAttribute, Marker, Site, set_item

_CONTAINERS: Final = {"append": (list, deque), "appendleft": (deque,)}
_DICTS: Final = (dict, defaultdict, OrderedDict, Counter)
"""Types that read and store an item that is there as `dict` does."""


def accumulated(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: an instruction that reads or stores what is added to; else as Python does it."""
    assert isinstance(marker, CalledOperation)
    found: VariableTracker | None = None
    operands = args[0].unpack_var_sequence(tx)
    try:
        check_is_outermost(tx)
        if tx.export or compilation.is_saved:
            raise Refused("under-export")
        if is_under_mode(tx):
            raise Refused("inside-transform")
        if compilation.trace.arms or is_cached(compilation.trace):
            raise Refused("effect-in-cache" if not compilation.trace.arms else "arm-changes-state")
        places(tx, marker.site)
        if isinstance(marker.function, GetAttribute):
            make = _method if marker.function.name in METHODS else _attribute
            found = make(tx, compilation, marker.site, operands[0], marker.function.name)
        elif marker.function is operator.getitem:
            found = _item(tx, compilation, marker.site, *operands)
        elif marker.function is set_item:
            found = _stored_item(tx, compilation, *operands)
    except Refused:
        found = None  # nothing breaks here: the frame is compiled as stock compiles it
    return marker_as_python(tx, marker, args) if found is None else found


def _attribute(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    owner: VariableTracker,
    name: str,
) -> VariableTracker | None:
    """A number or text in an attribute, for after the graph."""
    owner = owner.realize()
    effects = tx.output.side_effects
    if not isinstance(owner, UserDefinedObjectVariable) or owner.source is None:
        return None
    if any(effects.has_pending_mutation_of_attr(owner, each) for each in (name, *_DECIDING)):
        return None
    if type(owner.value).__getattribute__ is not object.__getattribute__:
        return None
    if id(getattr(owner.value, "__dict__", None)) in changed_objects(tx):
        return None
    value = getattr_static(owner.value, name, None)
    if type(value) not in VALUES or not is_known(value):
        return None
    place = AttrSource(owner.source, name)
    state = StatePlace(site, place, type(value), owner.source, name)
    added = compilation.trace.of(AccumulatedState)
    added.found.append(state)
    compilation.trace.used[site] = "accumulate"

    check = _checking(tx, site)

    def traced() -> VariableTracker:
        check()
        added.found.remove(state)
        if all(known.site != site for known in added.found):
            compilation.trace.used.pop(site, None)
        return read_attribute(tx, owner, name)

    return StateVariable(site, type(value), place, check, traced)


_DECIDING: Final = ("__dict__", "__class__")
"""Attributes that decide what the others are."""


def _checking(tx: InstructionTranslatorBase, site: Site) -> Callable[[], None]:
    """Refuses a site if something was done since it was read, which is now."""
    moment = _moment(tx)

    def check() -> None:
        if _moment(tx) != moment:
            raise SiteRefused(Refused("state-used", "Something happens before the sum."), site)

    return check


def _moment(tx: InstructionTranslatorBase) -> object:
    """What has been done so far: calls that are put off, and changes of objects."""
    stored = {
        id(item): {name: id(value) for name, value in values.items()}
        for item, values in tx.output.side_effects.store_attr_mutations.items()
        if values
    }
    return len(tx.output.root_tx.debug_locals), changed_objects(tx).keys(), stored


@dataclass(frozen=True, slots=True)
class _Container:
    """A container that the trace has not looked into.

    Attributes:
        lazy: as Dynamo would trace it; None if it is a list that is joined.
        place: where it is found.
        value: it.
    """

    lazy: LazyVariableTracker | None
    place: Source
    value: Any


def _container(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    container: VariableTracker,
    kinds: Container[type],
) -> _Container | None:
    """Such a container; None for others."""
    if not issubclass(type(container), LazyVariableTracker):  # isinstance() realizes
        return _grown(compilation, container)
    assert isinstance(container, LazyVariableTracker)
    if container.source is None:
        return None
    if container.is_realized():
        return _grown(compilation, container.realize())
    value = container.peek_value()
    if type(value) not in kinds:
        return None
    if id(value) in tx.output.side_effects.id_to_variable:
        return _grown(compilation, container.realize())
    return _Container(container, container.source, value)


def _grown(compilation: Compilation, container: VariableTracker) -> _Container | None:
    """A list that was looked into in a way in which more can be added to it."""
    added = compilation.trace.known(AccumulatedState)
    if added is None or container.source is None:
        return None
    grown = added.grown.get(container.source.name)
    if grown is None or id(grown) != id(container):
        return None
    values: list[Any] = grown.values
    return _Container(None, container.source, values)


def _method(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    container: VariableTracker,
    name: str,
) -> VariableTracker | None:
    """`append` of a container."""
    found = _container(tx, compilation, container, _CONTAINERS[name])
    return None if found is None else AppendVariable(site, container, name, compilation)


class AppendVariable(MarkedCalleeVariable):
    """A method that adds to a container; its call is made after the graph.

    Args:
        site: the load of the method.
        container: what is added to.
        name: of the method.
    """

    _nonvar_fields: ClassVar[set[str]] = {"name", *MarkedCalleeVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        container: VariableTracker,
        name: str,
        compilation: Compilation,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, container, compilation, **kwargs)
        self.name = name

    def python_type(self) -> type:
        return type([].append)

    def reconstruct(self, codegen: Any) -> None:
        codegen(self.callee.source)
        codegen.extend_output([codegen.create_load_attr(self.name)])

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        found = _container(tx, self.compilation, self.callee, _CONTAINERS[self.name])
        if found is None or kwargs or len(args) != 1 or not _is_kept(args[0]):
            traced = read_attribute(tx, self.callee, self.name)
            return traced.call_function(tx, args, kwargs)
        kind = type(found.value)
        method = EpilogueCallVariable("__gm_add", getattr(kind, self.name))
        state = StatePlace(self.site, found.place, kind)
        call = [PlaceVariable(found.place), args[0].realize()]
        _note(tx, self.compilation, state, found, method, call)
        return ConstantVariable.create(None)


def _note(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    state: StatePlace,
    container: _Container,
    function: EpilogueCallVariable,
    call: list[VariableTracker],
) -> None:
    """Put an addition off until after the graph."""
    trace = compilation.trace
    for feature in trace.obliged(Feature.before_effect):
        feature.before_effect(tx)
    note: Note = (function, call)
    tx.output.root_tx.debug_locals.append(note)
    trace.effects.append(state.site)
    trace.used[state.site] = "accumulate"
    added = trace.of(AccumulatedState)
    added.found.append(state)
    if container.lazy is not None:
        added.lazies.append((state, container.lazy))
    if type(container.value) is list:
        _, values = added.appended.setdefault(id(container.value), (state, []))
        values.append(call[-1])


def _is_kept(value: VariableTracker) -> bool:
    """True for a value that generated code gives to everyone as the same object, or a plain one."""
    value = value.realize()
    if isinstance(value, ChosenVariable):
        return value.lasts()
    if isinstance(value, HostVariable):
        return not isinstance(value, StateVariable)
    if type(value) is TensorVariable:  # what is derived from it makes an object where it is used
        return True
    return value.is_python_constant() and type(value.as_python_constant()) in _PLAIN


_PLAIN: Final = (*VALUES, bool, type(None))


def _item(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    container: VariableTracker,
    key: VariableTracker,
) -> VariableTracker | None:
    """An item of a dict, for the sum that takes its place."""
    found = _container(tx, compilation, container, _DICTS)
    if found is None or not key.is_python_constant():
        return None
    constant = key.as_python_constant()
    if type(constant) not in _KEYS:
        return None
    value = found.value.get(constant)
    if type(value) not in VALUES or not is_known(value):
        return None

    def traced() -> VariableTracker:
        return BuiltinVariable(operator.getitem).call_function(tx, [container, key], {})

    check = _checking(tx, site)
    return ItemVariable(site, type(value), found.place, check, traced, key=constant)


_KEYS: Final = (str, int, bool)


def _stored_item(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    value: VariableTracker,
    container: VariableTracker,
    key: VariableTracker,
) -> VariableTracker | None:
    """The store of such a sum, whose type is that of the item: so it can be added to again."""
    found = _container(tx, compilation, container, _DICTS)
    if found is None or not isinstance(value, ComputedVariable) or len(value.operands) != 2:
        return None
    item, added = value.operands
    if not isinstance(item, ItemVariable) or item.place != found.place or value.kind != item.kind:
        return None
    state = StatePlace(item.site, found.place, type(found.value), name=item.key, item=item.kind)
    function = EpilogueCallVariable("__gm_add_to_item", _add_to_item)
    operation = EpilogueCallVariable("__gm_operator", value.function)
    call = [PlaceVariable(found.place), ConstantVariable.create(item.key), operation, added]
    _note(tx, compilation, state, found, function, call)
    return ConstantVariable.create(None)


def _add_to_item(
    container: dict[Any, Any], key: Any, function: Callable[[Any, Any], Any], value: Any
) -> None:
    container[key] = function(container[key], value)
