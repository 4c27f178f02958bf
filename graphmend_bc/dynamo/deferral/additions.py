"""Instructions that add to state: what is read there, and the addition made after the graph."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, ClassVar, Final

from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.calls.markers import marker_as_python, read_attribute
from graphmend_bc.dynamo.deferral.accumulated_state import (
    VALUES,
    AccumulatedState,
    StatePlace,
    is_known,
)
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.host_values.epilogue_calls import Note, predicates
from graphmend_bc.dynamo.host_values.host_value import ComputedVariable, HostVariable
from graphmend_bc.dynamo.host_values.state_value import ItemVariable, PlaceVariable, StateVariable
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import is_under_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.accumulations import METHODS
from graphmend_bc.runtime import CalledOperation, GetAttribute, Marker, Site, set_item

_CONTAINERS: Final = (list, deque)


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
        if tx.export or is_under_mode(tx):
            raise Refused("under-export" if tx.export else "inside-transform")
        if isinstance(marker.function, GetAttribute):
            is_method = marker.function.name in METHODS
            make = _method if is_method else _attribute
            found = make(tx, compilation, marker.site, operands[0], marker.function.name)
        elif marker.function is operator.getitem:
            found = _item(tx, compilation, marker.site, *operands)
        elif marker.function is set_item:
            found = _stored_item(tx, compilation, marker.site, *operands)
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
    if compilation.trace.arms or effects.has_pending_mutation_of_attr(owner, name):
        return None
    if type(owner.value).__getattribute__ is not object.__getattribute__:
        return None
    value = getattr_static(owner.value, name, None)
    if type(value) not in VALUES or not is_known(value):
        return None
    place = AttrSource(owner.source, name)
    state = StatePlace(site, place, type(value), owner.source, name)
    added = compilation.trace.of(AccumulatedState)
    added.found.append(state)
    compilation.trace.used[site] = "accumulate"

    def traced() -> VariableTracker:
        added.found.remove(state)
        if all(known.site != site for known in added.found):
            compilation.trace.used.pop(site, None)
        return read_attribute(tx, owner, name)

    return StateVariable(site, type(value), place, traced)


@dataclass(frozen=True, slots=True)
class _Container:
    """A container that the trace has not looked into.

    Attributes:
        lazy: as Dynamo would trace it.
        place: where it is found.
        value: it.
    """

    lazy: LazyVariableTracker
    place: Source
    value: Any


def _container(
    tx: InstructionTranslatorBase, container: VariableTracker, kinds: tuple[type, ...]
) -> _Container | None:
    """Such a container; None for others."""
    if not issubclass(type(container), LazyVariableTracker):  # isinstance() realizes
        return None
    assert isinstance(container, LazyVariableTracker)
    if container.is_realized() or container.source is None:
        return None
    value = container.peek_value()
    if type(value) not in kinds or id(value) in tx.output.side_effects.id_to_variable:
        return None
    return _Container(container, container.source, value)


def _method(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    container: VariableTracker,
    name: str,
) -> VariableTracker | None:
    """`append` of a container."""
    found = _container(tx, container, _CONTAINERS)
    return None if found is None else AppendVariable(site, found.lazy, name, compilation)


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
        container: LazyVariableTracker,
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
        found = _container(tx, self.callee, _CONTAINERS)
        if found is None or kwargs or len(args) != 1 or not _is_kept(args[0]):
            method = read_attribute(tx, self.callee, self.name)
            return method.call_function(tx, args, kwargs)
        state = StatePlace(self.site, found.place, type(found.value))
        call = [PlaceVariable(found.place), ConstantVariable.create(self.name), args[0].realize()]
        _note(tx, self.compilation, state, found, _add, call)
        return ConstantVariable.create(None)


def _is_kept(value: VariableTracker) -> bool:
    """True for a value that generated code gives to everyone as the same object, or a plain one."""
    value = value.realize()
    if isinstance(value, HostVariable):
        return not isinstance(value, ItemVariable)
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
    found = _container(tx, container, (dict,))
    if found is None or not key.is_python_constant():
        return None
    constant = key.as_python_constant()
    if type(constant) not in (str, int, bool):
        return None
    value = found.value.get(constant)
    if type(value) not in VALUES or not is_known(value):
        return None

    def traced() -> VariableTracker:
        return BuiltinVariable(operator.getitem).call_function(tx, [container, key], {})

    return ItemVariable(site, type(value), found.place, traced, constant)


def _stored_item(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    value: VariableTracker,
    container: VariableTracker,
    key: VariableTracker,
) -> VariableTracker | None:
    """The store of such a sum."""
    found = _container(tx, container, (dict,))
    if found is None or not isinstance(value, ComputedVariable) or len(value.operands) != 2:
        return None
    item, added = value.operands
    if not isinstance(item, ItemVariable) or item.place != found.place or value.kind != item.kind:
        return None
    state = StatePlace(item.site, found.place, dict, name=item.key, item=item.kind)
    function = EpilogueCallVariable("__gm_operator", value.function)
    call = [PlaceVariable(found.place), ConstantVariable.create(item.key), function, added]
    _note(tx, compilation, state, found, _add_to_item, call)
    return ConstantVariable.create(None)


def _note(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    state: StatePlace,
    container: _Container,
    function: Callable[..., None],
    call: list[VariableTracker],
) -> None:
    """Put an addition off until after the graph."""
    trace = compilation.trace
    for feature in trace.obliged(Feature.before_effect):
        feature.before_effect(tx)
    around = predicates(tx, compilation, state.site)
    note: Note = (EpilogueCallVariable("__gm_add", function), [around, TupleVariable(call)])
    tx.output.root_tx.debug_locals.append(note)
    trace.effects.append(state.site)
    trace.used[state.site] = "accumulate"
    added = trace.of(AccumulatedState)
    added.found.append(state)
    added.lazies.append((state, container.lazy))


Predicates = Sequence[tuple[Any, bool]]


def _add(around: Predicates, call: tuple[Any, str, Any]) -> None:
    container, method, value = call
    if all(bool(truth) is taken for truth, taken in around):
        getattr(container, method)(value)


def _add_to_item(
    around: Predicates, call: tuple[dict[Any, Any], Any, Callable[[Any, Any], Any], Any]
) -> None:
    container, key, function, value = call
    if all(bool(truth) is taken for truth, taken in around):
        container[key] = function(container[key], value)
