"""What is drawn from Python's generators is drawn before the graph.

Dynamo draws from a copy of a generator of the user's, made while it traces, so that every call
would see the same numbers; or it breaks the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from torch._dynamo.source import AttrSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.misc import RandomClassVariable, RandomVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._guards import Source
from torch.fx import Node

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.host_function import HostCall
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.frames.breaks import UNSAFE_SIDE_EFFECT, instruction_of
from graphmend_bc.dynamo.random_draws.chances import constants_in, interval_of
from graphmend_bc.dynamo.random_draws.drawn_values import (
    HostDraw,
    HostDraws,
    argument_form,
    check_always_runs,
    drawn_before_graph,
    tensors_of_arguments,
)
from graphmend_bc.dynamo.random_draws.seeded_generators import seeded_by_draw
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace, current
from graphmend_bc.dynamo.trace.tracing import as_break
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.draws import PYTHON_DRAWS, is_python_draw

_DRAW_BREAK = "Data dependent operator"
"""What Dynamo calls it where a number is drawn."""


def call_function(stock: Callable[..., None]) -> Callable[..., None]:
    """`InstructionTranslatorBase.call_function`: functions of the module `random`."""

    def call(self: Translator, fn: VariableTracker, args: Args, kwargs: Keywords) -> None:
        if _makes_generator(fn.realize()) and _mends(self):
            if not kwargs and (seeded := _seeded(self, args)) is not None:
                self.push(seeded)
                return
            args = [_as_constant(self, arg) for arg in args]
        method = _of_module(fn.realize())
        value = None if method is None else _value(self, method, args, kwargs)
        if value is None:
            stock(self, fn, args, kwargs)
        else:
            self.push(value)

    return call


def _makes_generator(callee: VariableTracker) -> bool:
    """Whether `random.Random` is called; a mark looks at what it marks when it is called."""
    if not isinstance(callee, MarkedCalleeVariable):
        return isinstance(callee, RandomClassVariable)
    marked = callee.callee
    if isinstance(marked, LazyVariableTracker) and not marked.is_realized():
        return marked.peek_value() is Random
    return isinstance(marked.realize(), RandomClassVariable)


def call_method(stock: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
    """`RandomVariable.call_method`: methods of a generator of the user's."""

    def call(
        self: RandomVariable, tx: Translator, name: str, args: Args, kwargs: Keywords
    ) -> VariableTracker:
        method = _of_variable(self, name)
        if method is not None:
            value = _value(tx, method, args, kwargs)
        else:
            value = _of_made(self, tx, name, args, kwargs) if _mends(tx) else None
        return stock(self, tx, name, args, kwargs) if value is None else value

    return call


def _seeded(tx: InstructionTranslatorBase, args: Args) -> VariableTracker | None:
    """A generator whose seed the graph draws; None for another, or if that was declined."""
    compilation, place = current(), instruction_of(tx)
    if compilation is None or place is None:
        return None
    site = compilation.planner.site_at(*place)
    is_mended = compilation.mends(site) and site not in compilation.given_up
    return seeded_by_draw(compilation, site, args) if is_mended else None


def _as_constant(tx: InstructionTranslatorBase, seed: VariableTracker) -> VariableTracker:
    """A seed that varies, as the number that it is in this call: stock knows no generator by it."""
    seed = seed.realize()
    if not isinstance(seed, SymNodeVariable):
        return seed
    constant: VariableTracker = ConstantVariable.create(seed.evaluate_expr(tx.output))
    return constant


def _mends(tx: InstructionTranslatorBase) -> bool:
    compilation = None if tx.output.export else current()
    return compilation is not None and compilation.may_mend and compilation.draws


def _of_made(
    generator: RandomVariable, tx: Translator, name: str, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What a generator gives that the frame made: the same in every call. None if it raises.

    Dynamo has it computed before the graph, and an integer becomes a tensor, which rounds.
    """
    constant = all(value.is_python_constant() for value in (*args, *kwargs.values()))
    if name not in generator._supported_fn_names or not constant:
        return None
    tx.output.side_effects.mutation(generator)
    given = [value.as_python_constant() for value in args]
    named = {key: value.as_python_constant() for key, value in kwargs.items()}
    try:
        number = getattr(generator.random, name)(*given, **named)
    except (TypeError, ValueError):
        return None
    value: VariableTracker = ConstantVariable.create(number)
    return value


def _value(
    tx: Translator, method: BoundDraw, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What a method gives; None if that is left to stock."""
    compilation = None if tx.output.export else current()
    place = None if compilation is None else instruction_of(tx)
    if compilation is None or place is None:
        return None
    site = compilation.planner.site_at(*place)
    mends = compilation.draws and compilation.mends(site) and site not in compilation.given_up
    if not mends and (not method.of_copy or compilation.as_stock):
        return None
    try:
        if not mends:
            raise Refused("hoist-not-input", "It was declined; the report says why.")
        return _drawn(tx, compilation, site, method, args, kwargs)
    except Refused as refused:
        gb_type = UNSAFE_SIDE_EFFECT if compilation.trace.arms else _DRAW_BREAK
        raise as_break(compilation, site, refused, gb_type) from refused


@dataclass(frozen=True, slots=True)
class BoundDraw:
    """A method of a generator that was there before the frame.

    Attributes:
        name: its name.
        source: where the frame finds it.
        of_copy: whether Dynamo would draw from a copy of the generator.
    """

    name: str
    source: Source
    of_copy: bool


def bound_draw(callee: VariableTracker) -> BoundDraw | None:
    """What is called, if it is a method of a generator that was there before the frame."""
    read = facts.method_read(callee)
    owner = read[0].realize() if read is not None else None
    if read is not None and isinstance(owner, RandomVariable):
        return _of_variable(owner, read[1])
    return _of_module(callee)


def _of_module(callee: VariableTracker) -> BoundDraw | None:
    value: Any = getattr(callee, "value", None)
    if not is_python_draw(value) or callee.source is None:
        return None
    return BoundDraw(value.__name__, callee.source, of_copy=False)


def _of_variable(generator: RandomVariable, name: str) -> BoundDraw | None:
    if generator.source is None:
        return None
    return BoundDraw(name, AttrSource(generator.source, name), of_copy=True)


def _drawn(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    method: BoundDraw,
    args: Sequence[VariableTracker],
    kwargs: Mapping[str, VariableTracker],
) -> VariableTracker:
    trace = compilation.trace
    check_always_runs(tx, trace)
    if method.name not in PYTHON_DRAWS:
        raise Refused("hoist-not-input", f"'{method.name}' asks for the generator's state.")
    shuffled = _shuffled_list(method, args, kwargs)
    draw = host_draw(trace, site, method, args, kwargs)
    value = drawn_before_graph(tx, compilation, site, draw)
    if shuffled is None:
        return value
    assert isinstance(value, ListVariable)
    tx.output.side_effects.mutation(shuffled)
    shuffled.items[:] = value.items
    return ConstantVariable.create(None)


def host_draw(
    trace: Trace,
    site: Site,
    method: BoundDraw,
    args: Sequence[VariableTracker],
    kwargs: Mapping[str, VariableTracker],
) -> HostDraw:
    """The call of a generator's method; `shuffle` gives a shuffled copy.

    Args:
        trace: of the frame that has the call.
        site: the call.
        method: what is called.
        args, kwargs: what it is called with.

    Raises:
        Refused: an argument cannot be given before the graph.
    """
    nodes: list[Node] = []
    arguments = [argument_form(a, nodes, keeps_lists=True) for a in (*args, *kwargs.values())]
    name = f"{site.name}:{site.lineno} {len(trace.of(HostDraws).sites)} draws"
    piece = tensors_of_arguments(trace, nodes, name)
    count, names, shuffles = len(args), tuple(kwargs), method.name == "shuffle"

    def call(bound: Callable[..., Any], *values: Any) -> tuple[Sequence[Any], Any]:
        def draw(*given: Any) -> Any:
            found = bound(*given[:count], **dict(zip(names, given[count:], strict=True)))
            return given[0] if shuffles else found

        return HostCall(draw, arguments, lambda *values: piece.run(values))(*values)

    def on(copy: Random, bound: Callable[..., Any], *values: Any) -> tuple[Sequence[Any], Any]:
        return call(getattr(copy, bound.__name__), *values)

    interval = None if kwargs else interval_of(method.name, constants_in(args))
    return HostDraw((method.source, *piece.sources), call, generator_of, interval, on)


def generator_of(bound: Any, *values: Any) -> Sequence[Random] | None:
    """The generator whose method is called; None if it is no such method any more."""
    return (bound.__self__,) if is_python_draw(bound) else None


def _shuffled_list(
    method: BoundDraw, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]
) -> ListVariable | None:
    """The list that a call changes, if it is a call of `shuffle`."""
    if method.name != "shuffle":
        return None
    shuffled = args[0].realize() if len(args) == 1 and not kwargs else None
    if not isinstance(shuffled, ListVariable):
        raise Refused("hoist-not-input", "What is shuffled is no list.")
    return shuffled
