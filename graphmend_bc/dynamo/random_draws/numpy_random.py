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

    def draw(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    given = [*args, *kwargs.values()]
    interval = None if kwargs else interval_of(function.__name__, constants_in(given))
    value = _before_graph(tx, compilation, site, draw, given, interval)
    # Dynamo does not guard on what the name stands for.
    known, name = sys.modules["numpy"].random, function.__name__
    guard_on(f"numpy.random.{name}", lambda: getattr(known, name, None) is function, True)
    return value


def _before_graph(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: Callable[..., Any],
    args: Sequence[VariableTracker],
    interval: Interval | None = None,
) -> VariableTracker:
    """What a function of constants and tensors gives, which is called before the graph."""
    trace = compilation.trace
    nodes: list[Node] = []
    arguments = [argument_form(arg, nodes) for arg in args]
    name = f"{site.name}:{site.lineno} {len(trace.of(HostDraws).sites)} draws"
    piece = tensors_of_arguments(trace, nodes, name)
    call = HostCall(function, arguments, lambda *values: piece.run(values))
    generators = (sys.modules["numpy"].random.mtrand._rand,)
    draw = HostDraw(piece.sources, call, lambda *values: generators, interval)
    return drawn_before_graph(tx, compilation, site, draw)
