"""Where a hoisted value comes from: guards compute it from the inputs, generated code keeps it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

from torch._dynamo import guards
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._guards import GuardSource, Source

from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.before_graph.prologue import call_in_prologue
from graphmend_bc.runtime.told_once import told_once

_SLICES = "___graphmend_bc_slices"
"""The name under which the text of a guard finds the slices."""

_ENOUGH = 256
"""Labels that are known before those of slices that are gone are looked for the first time."""


@dataclass(frozen=True)
class HoistedSource(Source):
    """A value that a slice computes.

    Attributes:
        label: the slice's.
        slice: what computes it.
        local: the variable of the generated code that holds it; empty if only guards look at it.
    """

    label: str
    slice: Slice = field(compare=False)
    local: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        _known().add(self.slice)

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is in caches of compiled graphs, which hold the sources of symbolic sizes.

        The label stands for the slice, whose function is of this process: who reads a cache has
        traced the same computation.
        """
        return _read, (self.label, self.local)

    @property
    def _name_template(self) -> str:
        return f"{_SLICES}[{self.label!r}](L, G)"

    @property
    def guard_source(self) -> GuardSource:
        return GuardSource.LOCAL

    def get_value(self, globals: Any, locals: Any, cache: Any, **kwargs: Any) -> Any:
        if self not in cache:
            cache[self] = self.slice.seen(*self.slice.arguments({**globals, **locals}))
        return cache[self]

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen.append_output(codegen.create_load(self.local))


class Slices:
    """The slices that are alive, by their labels. What guards rest on, their functions keep alive.

    Those that are gone are looked for when there are many labels.
    """

    def __init__(self) -> None:
        self.by_label: dict[str, list[ref[Slice]]] = {}
        self.limit = _ENOUGH

    def add(self, piece: Slice) -> None:
        """One more, which may have the label of another: they compute the same."""
        self.by_label[piece.label] = [*_alive(self.by_label.get(piece.label, [])), ref(piece)]
        if len(self.by_label) > self.limit:
            found = {label: _alive(refs) for label, refs in self.by_label.items()}
            self.by_label = {label: refs for label, refs in found.items() if refs}
            self.limit = max(_ENOUGH, 2 * len(self.by_label))

    def __getitem__(self, label: str) -> Slice:
        for found in map(ref.__call__, reversed(self.by_label[label])):
            if found is not None:
                return found
        raise KeyError(label)


def _alive(refs: list[ref[Slice]]) -> list[ref[Slice]]:
    return [each for each in refs if each() is not None]


def _known() -> Slices:
    """Where the text of a guard finds the slices."""
    known: Any = guards._get_closure_vars()
    found: Slices = known.setdefault(_SLICES, _slices)
    return found


_slices = Slices()


def _read(label: str, local: str) -> HoistedSource:
    return HoistedSource(label, _known()[label], local)


def is_computed(guard: str) -> bool:
    """Whether a guard, by its text, is about a value that is computed from the inputs."""
    return _SLICES in guard


def hoisted_source(tx: InstructionTranslatorBase, piece: Slice) -> HoistedSource:
    """A source for a slice's value, with code before the graph that puts the value in a local.

    What the graph does to the inputs must not change the value, so it is asked once.
    """
    piece = replace(piece, kept=True)

    def recent(*arguments: Any) -> Any:
        try:
            return piece.recent(*arguments)
        except Exception as error:
            told_once("computes a value again", error)
            return piece.run(arguments)

    local = call_in_prologue(tx, recent, piece.sources, "hoisted")
    return HoistedSource(piece.label, piece, local)


def guarding(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`GuardBuilder.get_guard_manager_from_source`, which does not know this source."""

    def get_guard_manager_from_source(self: Any, source: Source) -> Any:
        if type(source) is not HoistedSource or source.name in self._cached_guard_managers:
            return stock(self, source)
        value = self.get(source)
        self.guard_tree_values[id(value)] = value
        module_globals = self.scope["G"]
        manager = self.guard_manager.root.lambda_manager(
            python_lambda=lambda f_locals: source.slice.in_lookup(f_locals, module_globals),
            source=source.name,
            example_value=value,
            guard_manager_enum=self.get_guard_manager_type(source, value),
        )
        self._cached_guard_managers[source.name] = manager
        return manager

    return get_guard_manager_from_source
