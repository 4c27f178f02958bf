"""What a trace has looked at: by which names, and which objects that change in place."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import Any, Final

from torch._dynamo.exc import Unsupported
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._guards import Source

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.graph.lambda_guards import value_at
from graphmend_bc.runtime.signal_handlers import pass_on

Values = Sequence[Any]
"""From a frame's variables and its globals to the objects at some places."""

_CHANGEABLE: Final = (list, dict, MappingProxyType, set, deque, bytearray, Iterator)
"""Types of objects that are changed otherwise than by assigning an attribute."""


def touched_by(
    tx: InstructionTranslatorBase,
) -> tuple[frozenset[str], dict[Source, object], bool]:
    """What a trace has read, or may hand out.

    Args:
        tx: translator of the innermost frame.

    Returns:
        Names of attributes, globals and variables of closures; objects that change in place, by
        where they are found; whether there are others, which cannot be found again.
    """
    names, found, unplaced = set[str](), dict[Source, object](), False
    for source, value in _read(tx):
        for part in _parts(source):
            names.update(_names(part))
        if value is None or not value.is_realized():
            continue
        try:
            real = value_at(tx, source)
        except Exception as error:
            pass_on(error)
            unplaced |= _changes_in_place(_kind(value))
            continue
        if _changes_in_place(type(real)):
            found[source] = real
    return frozenset(names), found, unplaced


def places_named(tx: InstructionTranslatorBase, name: str) -> list[Source]:
    """Where a trace has read something under a name.

    Args:
        tx: translator of the innermost frame.
        name: of an attribute, a global or a variable of a closure.
    """
    parts = (part for source, _ in _read(tx) for part in _parts(source))
    return [part for part in dict.fromkeys(parts) if name in _names(part)]


def _read(
    tx: InstructionTranslatorBase,
) -> Iterator[tuple[Source, VariableTracker | None]]:
    """Where all is from that a trace has looked at, or may hand out."""
    output = tx.output
    yield from facts.tracked(output)
    for guard in output.guards:
        yield guard.originating_source, None
    held: list[Any] = [list(output.side_effects.id_to_variable.values())]
    held += [list(each.values()) for each in output.side_effects.store_attr_mutations.values()]
    frame: InstructionTranslatorBase | None = tx
    while frame is not None:
        held += [frame.symbolic_locals, frame.stack]
        frame = frame.parent
    seen: list[VariableTracker] = []
    VariableTracker.visit(seen.append, held)
    for value in seen:
        if value.source is not None:
            yield value.source, value


def _parts(source: Source | None) -> Iterator[Source]:
    """A source, and those that it is based on."""
    while source is not None:
        yield source
        source = getattr(source, "base", None)


def _names(source: Source) -> Iterator[str]:
    """The attribute, global or shared variable that a source reads."""
    if getattr(source, "is_derefed_cell_contents", False):
        yield from (source.local_name, "cell_contents")  # type: ignore[attr-defined]
    for name in ("member", "global_name", "index"):
        if isinstance(value := getattr(source, name, None), str):
            yield value


def _changes_in_place(kind: type) -> bool:
    """True for objects that a trace reads; it cannot read a file, which is an iterator as well."""
    return issubclass(kind, _CHANGEABLE) and not issubclass(kind, io.IOBase)


def _kind(value: VariableTracker) -> type:
    try:
        return value.python_type()
    except (NotImplementedError, Unsupported):
        return object
