"""Lists of the program's that are added to and then joined: `torch.cat(m.values)`.

    m.values.append(y)                        put off until after the graph, see `additions.py`
    torch.cat([v.detach() for v in m.values])

Dynamo guards on the length of a list, so such a frame is compiled anew in each call. Here nothing
rests on the length. What was in the list before the call is joined before the graph, to one tensor
that is an input of it; what the frame has added follows it. A list that is asked anything else is
traced as stock does it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any, ClassVar, Final, NoReturn

import torch
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.functions import BaseUserFunctionVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.lists import ListIteratorVariable, ListVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import Source

from graphmend_bc.code.analysis.mappings import maps_items
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.joined_lists import Joining, check_joins, joined
from graphmend_bc.dynamo.deferral.accumulated_state import AccumulatedState
from graphmend_bc.dynamo.graph.lambda_guards import asking, guard_by
from graphmend_bc.dynamo.host_values.opaque_variable import (
    KnownTruth,
    OpaqueIterable,
    refuse_questions,
)
from graphmend_bc.dynamo.random_draws.drawn_values import check_always_runs, check_inference_mode
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, current
from graphmend_bc.dynamo.trace.truth_overrides import is_under_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_CATS: Final = (torch.cat, torch.concat, torch.concatenate)

_NAMES: Final = frozenset(
    {
        *("ndim", "dim", "numel", "nelement", "dtype", "device", "is_cuda", "is_floating_point"),
        *("unsqueeze", "squeeze", "flatten", "reshape", "view", "detach", "contiguous"),
        *("float", "double", "half", "bfloat16", "long", "int", "bool", "to", "cpu"),
    }
)
"""Attributes and methods of a tensor that change nothing, and draw nothing."""


class GrownListVariable(KnownTruth, OpaqueIterable, VariableTracker):
    """A list of the program's that the trace has added to, or what a comprehension makes of it.

    Args:
        site: where it was added to.
        place: of the list.
        values: what it held before the frame; nobody asks how much that is.
        new: what follows.
        compilation: what is being compiled.
        each: the comprehension; None for the list itself.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        *("site", "place", "values", "compilation", "each"),
        *VariableTracker._nonvar_fields,
    }

    def __init__(
        self,
        site: Site,
        place: Source,
        values: list[Any],
        new: list[VariableTracker],
        compilation: Compilation,
        each: CodeType | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.place = place
        self.values = values
        self.new = new
        self.compilation = compilation
        self.each = each

    def python_type(self) -> type:
        return list

    def truth(self) -> bool:
        """Whether there is anything in the list: something that was added, at least."""
        if not self.new:
            self.refuse("bool")
        return True

    def tp_iter_impl(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """`iter(values)`."""
        if self.each is not None:
            self.refuse("iter")
        return GrownIteratorVariable(self)

    def mapped(self, tx: Translator, function: BaseUserFunctionVariable) -> VariableTracker:
        """What a comprehension makes of the list, which its function is called for."""
        code = function.get_code()
        if not maps_items(code, _NAMES):
            self.refuse("for")
        rest = ListIteratorVariable(list(self.new), mutation_type=ValueMutationNew())
        made = function.call_function(tx, [rest], {}).realize()
        if not isinstance(made, ListVariable):
            self.refuse("for")
        given = self.site, self.place, self.values, made.items, self.compilation
        return GrownListVariable(*given, each=code)

    def joined(self, tx: Translator, dim: int) -> list[VariableTracker]:
        """What `torch.cat` is given for the list: one tensor for what was there, and the rest."""
        trace = self.compilation.trace
        try:
            check_always_runs(tx, trace)
            check_inference_mode(tx)
            if is_under_mode(tx):
                raise Refused("inside-transform")
            if not self.values:
                guard_by(asking(f"not {self.place.name}", {}), "a list that grows is empty")
                return self.new
            added = trace.of(AccumulatedState)
            key = self.place, self.each, dim, len(trace.listen(tx.output).written)
            if key not in added.joined:
                how = Joining(self.each, dim)
                added.joined[key] = joined(tx, trace, self.place, self.values, how)
            old = added.joined[key]
            assert isinstance(old, TensorVariable)
            check_joins(old, self.new, dim)
        except Refused as refused:
            raise SiteRefused(refused, self.site) from refused
        return [old, *self.new]

    def refuse(self, use: str) -> NoReturn:
        """Give the site up: the list is asked something else."""
        raise SiteRefused(Refused("state-used", f"It is used in '{use}'."), self.site)

    def reconstruct(self, codegen: PyCodegen) -> None:
        self.refuse("another statement")


refuse_questions(GrownListVariable, ("tp_iter_impl",))


@facts.with_slots
class GrownIteratorVariable(VariableTracker):
    """An iterator over such a list, for a comprehension.

    Args:
        of: the list.
    """

    def __init__(self, of: GrownListVariable, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.of = of

    def python_type(self) -> type:
        return type(iter([]))

    def next_variable(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """The next item, which a loop asks for."""
        self.refuse("for")

    def refuse(self, use: str) -> NoReturn:
        """Give the list up."""
        self.of.refuse(use)

    def reconstruct(self, codegen: PyCodegen) -> None:
        self.refuse("another statement")


refuse_questions(GrownIteratorVariable)


def wrap_list(stock: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
    """`VariableBuilder._wrap`: a list that the trace has added to, and now looks into."""

    def wrap(self: Any, value: Any) -> VariableTracker:
        if type(value) is list and (found := _grown(self.source, value)) is not None:
            effects = self.tx.output.side_effects
            grown: VariableTracker = effects.track_mutable(value, found)
            return grown
        return stock(self, value)

    return wrap


def _grown(source: Source, value: list[Any]) -> GrownListVariable | None:
    compilation = current()
    added = None if compilation is None else compilation.trace.known(AccumulatedState)
    if compilation is None or added is None or id(value) not in added.appended:
        return None
    state, new = added.appended[id(value)]
    if state.place.name != source.name:
        return None
    found = GrownListVariable(state.site, source, value, new, compilation, source=source)
    added.grown[source.name] = found
    return found


def call_mapping(stock: Callable[..., None]) -> Callable[..., None]:
    """`InstructionTranslatorBase.call_function`: the function of a comprehension over a list."""

    def call(self: Translator, fn: VariableTracker, args: Args, kwargs: Keywords) -> None:
        # isinstance() realizes lazy variables
        iterates = len(args) == 1 and not kwargs and type(args[0]) is GrownIteratorVariable
        if not iterates or not isinstance(fn.realize(), BaseUserFunctionVariable):
            stock(self, fn, args, kwargs)
            return
        self.push(args[0].of.mapped(self, fn.realize()))  # type: ignore[attr-defined]

    return call


def call_cat(stock: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
    """`TorchInGraphFunctionVariable.call_function`: such a list is joined."""

    def call(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        if any(self.value is cat for cat in _CATS) and args:
            grown, dim = _as_grown(args[0]), _dim(args, kwargs)
            if grown is not None and dim is not None:
                try:
                    items = grown.joined(tx, dim)
                except SiteRefused:
                    # If it raises, the program may catch that: it runs as it is in this call.
                    stock(self, tx, [_list_of(grown.new), *args[1:]], kwargs)
                    raise
                args = [_list_of(items), *args[1:]]
        return stock(self, tx, args, kwargs)

    return call


def _list_of(items: list[VariableTracker]) -> VariableTracker:
    made: VariableTracker = ListVariable(list(items), mutation_type=ValueMutationNew())
    return made


def _as_grown(value: VariableTracker) -> GrownListVariable | None:
    """A list that the trace has added to; nothing else is realized."""
    if issubclass(type(value), LazyVariableTracker):
        assert isinstance(value, LazyVariableTracker)
        compilation = current()
        added = None if compilation is None else compilation.trace.known(AccumulatedState)
        known = value.is_realized() or (
            added is not None and id(value.peek_value()) in added.appended
        )
        value = value.realize() if known else value
    return value if type(value) is GrownListVariable else None


def _dim(args: Args, kwargs: Keywords) -> int | None:
    """Along which a call of `torch.cat` joins; None if it does more, or that is not known."""
    given = [*args[1:], *kwargs.values()]
    if len(given) > 1 or not kwargs.keys() <= {"dim"}:
        return None
    if not given:
        return 0
    value = given[0].as_python_constant() if given[0].is_python_constant() else None
    return value if type(value) is int and value >= 0 else None
