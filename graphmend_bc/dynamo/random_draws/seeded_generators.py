"""A generator of Python's that is seeded with what torch draws, in the function that uses it.

    seed = torch.randint(0, 10_000, ()).item()
    last = random.Random(seed).randrange(depth)

The seed is known before the graph only, and each is as likely as the others. What the generator
gives may be one of a few: then that is a constant of the trace, and a guard draws it ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final

from torch._dynamo.codegen import PyCodegen
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.random_draws.chances import check_few
from graphmend_bc.dynamo.random_draws.foreseen_constants import foreseen_constant
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_Call = tuple[str, Sequence[Any], Mapping[str, Any]]

_METHODS: Final = ("randint", "randrange", "choice", "choices", "sample")
"""Methods that give one of a few numbers, and change nothing that they are given."""


def seeded_by_draw(
    compilation: Compilation, site: Site, args: Sequence[VariableTracker]
) -> SeededGenerator | None:
    """The generator that `random.Random` makes of a seed that the graph draws; None for others.

    Args:
        compilation: what is being compiled.
        site: the call.
        args: what it is called with.
    """
    seed = args[0].realize() if len(args) == 1 else None
    if not isinstance(seed, SymNodeVariable) or not free_unbacked_symbols(seed.sym_num):
        return None
    if seed.python_type() is not int:
        return None
    return SeededGenerator(compilation, site, seed.as_proxy().node)


@facts.with_slots
class SeededGenerator(VariableTracker):
    """The generator; it stays in the trace.

    Args:
        compilation: what is being compiled.
        site: where it is made.
        seed: node of its seed.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        *("compilation", "site", "seed", "calls"),
        *VariableTracker._nonvar_fields,
    }

    def __init__(self, compilation: Compilation, site: Site, seed: Node, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.compilation = compilation
        self.site = site
        self.seed = seed
        self.calls: list[_Call] = []

    def python_type(self) -> type[Random]:
        return Random

    def call_method(
        self, tx: Translator, name: str, args: Args, kwargs: Keywords
    ) -> VariableTracker:
        """What a method gives, a constant."""
        try:
            value = self._drawn(tx, name, args, kwargs)
        except Refused as refused:
            raise SiteRefused(refused, self.site) from refused
        found: VariableTracker = VariableTracker.build(tx, value)
        return found

    def reconstruct(self, codegen: PyCodegen) -> None:
        refused = Refused("hoist-not-input", "The generator is used as an object.")
        raise SiteRefused(refused, self.site)

    def _drawn(self, tx: Translator, name: str, args: Args, kwargs: Keywords) -> Any:
        if name not in _METHODS or getattr(Random, name) is not _KNOWN[name]:
            raise Refused("hoist-not-input", f"'{name}' does not choose one of a few.")
        given, named = [*map(_constant, args)], {k: _constant(v) for k, v in kwargs.items()}
        check_few(name, given, named)
        calls = [*self.calls, (name, given, named)]

        def finish(seed: int) -> Any:
            generator = Random(seed)
            return [_called(generator, *call) for call in calls][-1]

        label = f"{self.site.name}:{self.site.lineno} {self.seed.name} {calls}"
        value = foreseen_constant(tx, self.compilation, self.site, self.seed, finish, label)
        self.calls.append((name, given, named))
        return value


facts.hide_tables(SeededGenerator)

_KNOWN: Final = {name: getattr(Random, name) for name in _METHODS}


def _called(generator: Random, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return getattr(generator, name)(*args, **kwargs)


def _constant(value: VariableTracker) -> Any:
    value = value.realize()
    if not value.is_python_constant():
        raise Refused("hoist-not-input", "An argument is no constant.")
    known = value.as_python_constant()
    if type(known) not in (int, range, str, list, tuple) or not _is_plain(known):
        raise Refused("hoist-not-input", f"An argument is a {type(known).__name__}.")
    return known


def _is_plain(value: Any) -> bool:
    """True for a value that its text tells from all others."""
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return type(value) in (int, float, bool, str, range, type(None))
