"""Integers that a frame stores in modules, other objects, dicts, lists and globals, such as counts.

Dynamo guards on the values of integers in modules and in what is global, since most never change.
What the frame itself stores does: without a symbol for it the frame would be compiled anew in each
call, up to a limit after which it is not compiled at all.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.source import AttrSource, DictGetItemSource, GetItemSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.misc import NewGlobalVariable, PythonModuleVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.graph.lambda_guards import value_at
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.runtime.signal_handlers import pass_on


@dataclass(slots=True, eq=False)
class StoredIntegers(Feature):
    """The integers that an attempt has stored where others were before.

    Attributes:
        names: of their sources, such as "L['self'].count".
    """

    stays: ClassVar[bool] = True

    names: set[str] = field(default_factory=set)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        effects = tx.output.side_effects
        for owner, stored in effects.store_attr_mutations.items():
            for name, value in stored.items():
                place = _place_of(owner, name)
                if place is not None and _is_integer(value):
                    self._note(place, _before(tx, place), value)
        kept: Iterable[Any] = list(effects.id_to_variable.values())
        for container in (value.realize() for value in kept if value.is_realized()):
            where, items = container.source, facts.items_of_dict(container)
            known = where is not None and isinstance(items, (ConstDictVariable, ListVariable))
            if known and effects.is_modified(container):
                held = _before(tx, where)
                for place, key, value in _items_of(items, where):
                    self._note(place, _item(held, key), value)

    def _note(self, place: Source, before: object, value: VariableTracker) -> None:
        """Note a place if there was an integer, and another one is stored."""
        if type(before) is int and _is_integer(value) and not _is_constant(value, before):
            self.names.add(place.name)


def _place_of(owner: VariableTracker, name: str) -> Source | None:
    """Where an attribute or a global is read from, if no code of the program's runs for it."""
    if owner.source is None or isinstance(owner, NewGlobalVariable):
        return owner.source
    if isinstance(owner, UserDefinedObjectVariable):
        is_known = type(inspect.getattr_static(owner.value, name, None)) is int
    else:
        is_known = isinstance(owner, PythonModuleVariable)
    return AttrSource(owner.source, name) if is_known else None


def _items_of(container: Any, where: Source) -> Iterator[tuple[Source, Any, VariableTracker]]:
    """The items of a dict or list: where they are read from, their keys and values."""
    if isinstance(container, ListVariable):
        for index, item in enumerate(container.items):
            yield GetItemSource(where, index), index, item
        return
    for key, item in container.items.items():
        known = key.vt.as_python_constant() if key.vt.is_python_constant() else None
        if type(known) in (str, int):
            yield DictGetItemSource(where, known), known, item


def _before(tx: InstructionTranslatorBase, place: Source) -> object:
    """What is at a place before the frame; None if there is nothing."""
    try:
        return value_at(tx, place)
    except Exception as error:
        pass_on(error)
        return None


def _item(container: object, key: Any) -> object:
    if isinstance(container, dict):
        return dict.get(container, key)
    if isinstance(container, list) and key < len(container):
        return list.__getitem__(container, key)
    return None


def _is_integer(value: VariableTracker) -> bool:
    if not value.is_realized():  # nobody has asked what it is
        return False
    value = value.realize()
    if isinstance(value, SymNodeVariable):
        return value.python_type() is int
    return isinstance(value, ConstantVariable) and type(value.value) is int


def _is_constant(value: VariableTracker, number: int) -> bool:
    value = value.realize()
    return isinstance(value, ConstantVariable) and bool(value.value == number)


def as_symbols(names: AbstractSet[str]) -> AbstractContextManager[Any]:
    """A block in which integers from some sources become symbols.

    Args:
        names: of the sources.
    """
    if not names:
        return nullcontext()
    own = torch.compiler.config.dynamic_sources
    patterns = [f"{re.escape(name)}$" for name in sorted(names) if not re.search(r"[,:\s]", name)]
    settings: Any = torch.compiler.config
    block: AbstractContextManager[Any] = settings.patch(
        dynamic_sources=",".join([*filter(None, [own]), *patterns])
    )
    return block
