"""What is drawn from NumPy's global generator is drawn before the graph."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import NestedUserFunctionVariable
from torch.fx import Node

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.before_graph.host_function import HostCall
from graphmend_bc.dynamo.calls.markers import outlined
from graphmend_bc.dynamo.frames.breaks import UNSAFE_SIDE_EFFECT, instruction_of
from graphmend_bc.dynamo.random_draws.chances import Interval, constants_in, interval_of
from graphmend_bc.dynamo.random_draws.drawn_values import (
    HostDraw,
    HostDraws,
    argument_form,
    check_always_runs,
    drawn_before_graph,
    tensors_of_arguments,
)
from graphmend_bc.dynamo.random_draws.host_code import check_host_code, is_draw
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.tracing import as_break
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


def _drawn(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    check_always_runs(tx, compilation.trace)
    assert isinstance(function, NestedUserFunctionVariable)
    code, scope = function.get_code(), tx.f_globals
    known = check_host_code(code, scope)
    value = _before_graph(tx, compilation, site, FunctionType(code, scope), args)
    guard_on(f"names in {site}", lambda: all(item.is_still() for item in known), True)
    return value


drawn = outlined(_drawn)
"""Handler: what a function gives, as an input of the graph."""


def draw_as_numpy(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`NumpyVariable.call_function`: Dynamo would draw from torch's generator instead."""

    def call_function(self: Any, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        compilation = current() if is_draw(self.value) and not tx.export else None
        mends = compilation is not None and compilation.may_mend and compilation.draws
        place = instruction_of(tx) if mends else None
        if compilation is None or place is None:
            return cast(VariableTracker, stock(self, tx, args, kwargs))
        site = compilation.planner.site_at(*place)
        try:
            if (given_up := compilation.given_up.get(site)) is not None:
                raise given_up.again()
            if not compilation.mends(site):
                raise Refused("hoist-not-input", "It was declined; the report says why.")
            return _drawn_by(tx, compilation, site, self.value, args, kwargs)
        except Refused as refused:
            gb_type = UNSAFE_SIDE_EFFECT if compilation.trace.arms else _DRAW_BREAK
            raise as_break(compilation, site, refused, gb_type) from refused

    return call_function


_DRAW_BREAK = "Data dependent operator"
"""What Dynamo calls it where a number is drawn."""


def _drawn_by(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: Callable[..., Any],
    args: Sequence[VariableTracker],
    kwargs: Mapping[str, VariableTracker],
) -> VariableTracker:
    """What a function of `numpy.random` gives."""
    check_always_runs(tx, compilation.trace)
    count, names = len(args), tuple(kwargs)

    def draw_from(drawing: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *v: drawing(*v[:count], **dict(zip(names, v[count:], strict=True)))

    def draw_on(copy: Any) -> Callable[..., Any]:
        return draw_from(getattr(copy, name))

    given, name = [*args, *kwargs.values()], function.__name__
    interval = None if kwargs else interval_of(name, constants_in(given))
    value = _before_graph(tx, compilation, site, draw_from(function), given, interval, draw_on)
    # Dynamo does not guard on what the name stands for.
    known = sys.modules["numpy"].random
    guard_on(f"numpy.random.{name}", lambda: getattr(known, name, None) is function, True)
    return value


def _before_graph(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: Callable[..., Any],
    args: Sequence[VariableTracker],
    interval: Interval | None = None,
    draw_on: Callable[[Any], Callable[..., Any]] | None = None,
) -> VariableTracker:
    """What a function of constants and tensors gives, which is called before the graph.

    Args:
        tx, compilation, site: as for `drawn_before_graph`.
        function: draws from the global generator.
        args: what it is called with.
        interval: as `HostDraw` has it.
        draw_on: the same function for another generator.
    """
    trace = compilation.trace
    nodes: list[Node] = []
    arguments = [argument_form(arg, nodes) for arg in args]
    name = f"{site.name}:{site.lineno} {len(trace.of(HostDraws).sites)} draws"
    piece = tensors_of_arguments(trace, nodes, name)
    generators = (sys.modules["numpy"].random.mtrand._rand,)

    def called(function: Callable[..., Any]) -> HostCall:
        return HostCall(function, arguments, lambda *values: piece.run(values))

    def on(copy: Any, *values: Any) -> tuple[Sequence[Any], Any]:
        assert draw_on is not None
        return called(draw_on(copy))(*values)

    draw = HostDraw(
        piece.sources,
        called(function),
        lambda *values: generators,
        interval,
        None if draw_on is None else on,
    )
    return drawn_before_graph(tx, compilation, site, draw)
