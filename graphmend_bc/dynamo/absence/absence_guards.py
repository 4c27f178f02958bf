"""Guards on what was absent, or was there and not used, kept until the frame is known as mended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any, ClassVar, Final, NamedTuple

from torch._dynamo import source
from torch._dynamo.guards import GuardBuilder, GuardManagerType, install_guard
from torch._dynamo.variables.base import VariableTracker
from torch._guards import Guard, Source

from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.features import Feature


class _Noted(NamedTuple):
    """The arguments of `note_absent`."""

    where: Source
    what: str
    make: Any
    kwargs: Mapping[str, Any]

    def guard(self) -> Guard:
        make = partial(self.make, **self.kwargs) if self.kwargs else self.make
        return self.where.make_guard(make)


@dataclass(slots=True, eq=False)
class Absences(Feature):
    """What an attempt did not find.

    Attributes:
        noted: what was not found, or is not guarded on by Dynamo, in the order of the trace. Guards
            are made of it at the end: most frames have no mend, and need none.
        found: values that were found, each with what notes a guard on its being there, and that
            function's arguments. Dynamo guards on a value when it is first used; to find none would
            have raised all the same.
        ordered: dicts whose order matters, besides those that Dynamo knows.
        builtins: names that were not found among the globals, with the id of these; the globals.
    """

    order: ClassVar[int] = 90  # what ends the graph may learn more
    stays: ClassVar[bool] = True

    noted: list[_Noted] = field(default_factory=list)
    found: list[tuple[VariableTracker, Callable[..., None], Any, Any]] = field(default_factory=list)
    ordered: set[Source] = field(default_factory=set)
    builtins: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)

    def on_graph_end(self, compilation: Compilation, tx: Any, is_break: bool) -> None:
        """Guard on what was absent, if the frame is mended."""
        if compilation.is_mended:
            self._guard_globals(tx)
            self._note_unused()
            install_guard(*self._guards())
            tx.output.guard_on_key_order.update(self.ordered)

    def _note_unused(self) -> None:
        """What Dynamo has not looked at by now it does not guard on."""
        for value, note, owner, what in self.found:
            if not value.is_realized():
                note(owner, what)

    def _guards(self) -> list[Guard]:
        """One guard for each thing that was noted, however often it was."""
        first: dict[tuple[str, str, str], _Noted] = {}
        for noted in self.noted:
            first.setdefault((noted.where.name, noted.make.__name__, noted.what), noted)
        return [noted.guard() for noted in first.values()]

    def _guard_globals(self, tx: Any) -> None:
        """No global may come to hide a builtin."""
        for (_, name), module_globals in self.builtins.items():
            if module_globals is tx.output.global_scope:
                make = partial(is_global, name=name, known=False)
                install_guard(source.GlobalSource(name).make_guard(make))
                continue
            module = sys.modules.get(module_globals.get("__name__", ""))
            if module is not None and vars(module) is module_globals and may_change(module):
                where = tx.import_source(module.__name__)
                make = partial(GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT, attr=name)
                install_guard(where.make_guard(make))


def note_absent(where: Source, what: str, make: Any, **kwargs: Any) -> None:
    """Keep a guard for the case that the frame is mended.

    Args:
        where: what it looks at.
        what: tells it from others of its kind.
        make: a function of Dynamo's `GuardBuilder`; `kwargs` are for it.
    """
    if (compilation := current()) is not None:
        compilation.trace.of(Absences).noted.append(_Noted(where, what, make, kwargs))


def note_found(value: VariableTracker, note: Callable[..., None], owner: Any, what: Any) -> None:
    """Guard on a value's being there, if the frame is mended and does not use it.

    Args:
        value: what was found; Dynamo has not looked at it yet.
        note: calls `note_absent`, if it is so.
        owner, what: what `note` is called with.
    """
    if (compilation := current()) is not None:
        compilation.trace.of(Absences).found.append((value, note, owner, what))


def may_change(module: ModuleType) -> bool:
    """False for modules of torch's and of the standard library, which Dynamo trusts as well."""
    return module.__name__.partition(".")[0] not in _TRUSTED


_TRUSTED: Final = sys.stdlib_module_names | {"torch"}


def is_global(builder: Any, guard: Guard, name: str, known: bool = True) -> None:
    """Install a guard that there is a global, or none, of a name; for `Source.make_guard`."""
    manager = builder.guard_manager.root.globals_dict_manager(
        f_globals=builder.runtime_global_scope,
        source="G",
        example_value=builder.scope["G"],
        guard_manager_enum=GuardManagerType.GUARD_MANAGER,
    )
    text = f"{name!r} {'in' if known else 'not in'} G"
    manager.add_dict_contains_guard(known, name, [text], guard.user_stack)


def lacks_key(builder: Any, guard: Guard, key: str) -> None:
    """Install a guard that a dict lacks a key; for `Source.make_guard`.

    Dynamo's own is left out if one with the same text was made, of an object's generic dict even.
    """
    text = f"{key!r} not in {guard.name}"
    manager = builder.get_guard_manager(guard)
    manager.add_dict_contains_guard(False, key, [text], guard.user_stack)
