"""Draws that choose one of a few: what is chosen is a constant of the trace, and guarded.

A guard draws from a copy of the generator what the frame is going to draw. So every outcome has a
compiled version of its own, which draws before its graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import ListVariable, RangeVariable, TupleVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource
from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.before_graph.guarded_constants import NO_ANSWER, answer_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.random_draws.chances import check_few
from graphmend_bc.dynamo.random_draws.drawn_values import HostDraw, HostDraws, check_always_runs
from graphmend_bc.dynamo.random_draws.foreseen_draws import drawn_ahead
from graphmend_bc.dynamo.random_draws.python_random import bound_draw, generator_of
from graphmend_bc.reporting.reasons import Refused


def _chosen(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What a call chooses, as a constant; None if it is no call of a generator's method."""
    method = bound_draw(callee.callee.realize())
    if method is None or callee.site in callee.compilation.given_up:
        return None
    check_always_runs(tx, callee.compilation.trace)
    items = _items(tx, method.name, args[0]) if method.name in _CHOOSING and args else None
    given = [*((range(len(items)),) if items is not None else ())]
    given += [_constant(arg) for arg in args[0 if items is None else 1 :]]
    named = {name: _constant(value) for name, value in kwargs.items()}
    check_few(method.name, given, named)
    drawn: Any = _guarded(callee, tx, _draw(method.source, method.name, given, named))
    if items is None:
        return _known(drawn)
    if method.name == "choice":
        return cast(VariableTracker, items[drawn])
    chosen = [items[index] for index in drawn]
    if method.name != "shuffle":
        return ListVariable(chosen, mutation_type=ValueMutationNew())
    shuffled = args[0].realize()
    assert isinstance(shuffled, ListVariable)
    tx.output.side_effects.mutation(shuffled)
    shuffled.items[:] = chosen
    return _known(None)


chosen = known_call("draw", _chosen)

_CHOOSING = ("choice", "choices", "sample", "shuffle")


def _items(
    tx: InstructionTranslatorBase, name: str, population: VariableTracker
) -> list[VariableTracker]:
    """What is chosen from: its order and number are known, so that indices can be drawn."""
    population = population.realize()
    kinds = (ListVariable,) if name == "shuffle" else (ListVariable, TupleVariable, RangeVariable)
    if type(population) not in kinds:
        raise Refused("hoist-not-input", f"It chooses from {population}.")
    return population.unpack_var_sequence(tx)


def _constant(value: VariableTracker) -> Any:
    value = value.realize()
    if not value.is_python_constant():
        raise Refused("hoist-not-input", "An argument is no constant.")
    return value.as_python_constant()


def _known(value: Any) -> VariableTracker:
    known: VariableTracker = ConstantVariable.create(value)
    return known


def _draw(source: Source, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> HostDraw:
    def call(bound: Callable[..., Any]) -> tuple[None, Any]:
        if name != "shuffle":
            return None, bound(*args, **kwargs)
        order = list(args[0])
        bound(order)
        return None, order

    return HostDraw((source,), call, generator_of, on=lambda copy, _: call(getattr(copy, name)))


def _guarded(callee: KnownCalleeVariable, tx: InstructionTranslatorBase, draw: HostDraw) -> Any:
    """What the frame draws in this call, with a guard that it is the same in others."""
    found = callee.compilation.trace.of(HostDraws)
    draws = (*found.draws, draw)
    values = [value for each in draws for value in each.values_in(tx)]
    drawn = answer_of(partial(_foreseen, draws, *values))
    if drawn is NO_ANSWER:
        raise Refused("hoist-not-input", "It raises.")
    sources = tuple(source for each in draws for source in each.sources)
    label = f"{callee.site.name}:{callee.site.lineno} chooses {next(_numbers)}"
    piece = Slice(
        label, sources, lambda *values: repr(answer_of(partial(_foreseen, draws, *values)))
    )
    install_guard(HoistedSource(label, piece).make_guard(GuardBuilder.CONSTANT_MATCH))
    found.add(tx, callee.compilation, callee.site, draw, drawn)
    return drawn


_numbers = itertools.count()


def _foreseen(draws: Sequence[HostDraw], *values: Any) -> Any:
    """What the last of some calls is going to draw, after the others."""
    last = len(draws) - 1
    return drawn_ahead(draws, iter(values), (last,))[last][1]
