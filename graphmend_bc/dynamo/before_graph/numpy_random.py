"""What is drawn from NumPy's generator: drawn before the graph, arrays and numbers are inputs.

Nothing guards on what is drawn. The graph rests on shapes and types only; if they are others, or if
the graph cannot be used for another reason, the generator is set back and the frame's original code
runs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import CO_GENERATOR
from types import FunctionType
from typing import Any, ClassVar, cast

import torch
from torch._dynamo.source import GetItemSource, SyntheticLocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builder import GraphArg, wrap_fx_proxy_cls
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.functions import NestedUserFunctionVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.tensor import NumpyNdarrayVariable, TensorVariable
from torch._guards import Source
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from graphmend_bc.dynamo.before_graph.call_template import TENSOR, form_of
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.before_graph.host_function import NUMBERS, HostCall
from graphmend_bc.dynamo.before_graph.prologue import call_before_graph
from graphmend_bc.dynamo.before_graph.subgraph import Limits, Slice, slice_of
from graphmend_bc.dynamo.trace.breaks import UNSAFE_SIDE_EFFECT, instruction_of
from graphmend_bc.dynamo.trace.cached_calls import is_cached
from graphmend_bc.dynamo.trace.context import Compilation, Trace, current
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.dynamo.trace.markers import outlined
from graphmend_bc.dynamo.trace.tracing import as_break, check_is_outermost
from graphmend_bc.legality.host_code import check_host_code, is_draw
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.draws import Drawn, Draws, not_drawn
from graphmend_bc.runtime.signal_handlers import pass_on


@dataclass(slots=True, eq=False)
class NumpyDraws(Feature):
    """What is drawn before the graph.

    Attributes:
        sites: calls that draw from NumPy's generator, in order.
        state: what they leave the generator as, if the graph is not used.
    """

    order: ClassVar[int] = 60

    sites: list[Site] = field(default_factory=list)
    state: Draws | None = None

    def rolls_back(self) -> RollbackNeed:
        return RollbackNeed.WORTH_COPIES if self.sites else RollbackNeed.NOT_NEEDED

    def blamed(self) -> Iterable[Site]:
        return self.sites

    def on_commit(self, compilation: Compilation) -> bool:
        return self.state is not None

    def roll_back(self) -> Callable[[], None] | None:
        return None if self.state is None else self.state.roll_back


def _drawn(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    _check_always_runs(tx, compilation.trace)
    assert isinstance(function, NestedUserFunctionVariable)
    code, scope = function.get_code(), tx.f_globals
    known = check_host_code(code, scope)
    value = _before_graph(tx, compilation, site, FunctionType(code, scope), args)
    guard_on(f"names in {site}", lambda: all(item.is_still() for item in known))
    return value


drawn = outlined(_drawn)
"""Handler: what a function gives, as an input of the graph."""


def draw_as_numpy(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`NumpyVariable.call_function`: Dynamo would draw from torch's generator instead."""

    def call_function(
        self: Any,
        tx: InstructionTranslatorBase,
        args: list[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> VariableTracker:
        compilation = current() if is_draw(self.value) and not tx.export else None
        mends = compilation is not None and compilation.may_mend and compilation.draws
        place = instruction_of(tx) if mends else None
        if compilation is None or place is None:
            return cast(VariableTracker, stock(self, tx, args, kwargs))
        site = compilation.site_at(*place)
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
    _check_always_runs(tx, compilation.trace)
    count, names = len(args), tuple(kwargs)

    def draw(*values: Any) -> Any:
        return function(*values[:count], **dict(zip(names, values[count:], strict=True)))

    value = _before_graph(tx, compilation, site, draw, [*args, *kwargs.values()])
    # Dynamo does not guard on what the name stands for.
    known, name = sys.modules["numpy"].random, function.__name__
    guard_on(f"numpy.random.{name}", lambda: getattr(known, name, None) is function)
    return value


def _before_graph(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: Callable[..., Any],
    args: Sequence[VariableTracker],
) -> VariableTracker:
    """What a function of constants and tensors gives, which is called before the graph."""
    trace = compilation.trace
    found = trace.of(NumpyDraws)
    nodes: list[Node] = []
    arguments = [_argument(arg, nodes) for arg in args]
    name = f"{site.name}:{site.lineno} {len(found.sites)} draws"
    piece = _tensors(trace, nodes, name)
    call = HostCall(function, arguments, lambda *values: piece.run(values))
    arrays, described = _tried(tx, call, piece)
    if not compilation.captures and (number := _number_in(described)) is not None:
        raise Refused("hoist-not-input", f"It gives a {number.__name__}.")
    draws = found.state = found.state or Draws(_generator())
    mismatched = partial(compilation.draw_mismatched, site)
    before = Drawn(draws, not found.sites, call, described, mismatched)
    base = SyntheticLocalSource(call_before_graph(tx, before, piece.sources, "drawn"))
    found.sites.append(site)
    trace.used[site] = "draw"
    inputs = ((GetItemSource(base, i), array) for i, array in enumerate(arrays))
    return _wrapped(tx, described, inputs)


def _number_in(described: Any) -> type | None:
    """The type of a number among what a function gives; None if there is none."""
    if described[0] in (list, tuple):
        return next(filter(None, map(_number_in, described[1])), None)
    return described[0] if described[0] in NUMBERS else None


def _check_always_runs(tx: InstructionTranslatorBase, trace: Trace) -> None:
    """Refuse where the function may be called in another order, or not at all."""
    if tx.export:
        raise Refused("under-export")
    check_is_outermost(tx)
    if trace.arms or is_cached(trace):
        raise Refused("hoist-not-input", "The function is not called every time.")
    caller: Any = tx.parent
    while caller is not None:
        if caller.f_code.co_flags & CO_GENERATOR:
            raise Refused("hoist-not-input", "The function is called in a generator.")
        caller = caller.parent


def _generator() -> Any:
    return sys.modules["numpy"].random.mtrand._rand


def _argument(value: VariableTracker, nodes: list[Node]) -> Any:
    """An argument as `HostCall` has it; the nodes of tensors are added to a list."""
    known = len(nodes)
    form = form_of(value, nodes)
    if any(node.meta["example_value"].requires_grad for node in nodes[known:]):
        raise Refused("hoist-not-input", "An argument requires a gradient.")
    for leaf in tree_leaves(form):
        if leaf is not TENSOR and type(leaf) not in _CONSTANTS:
            raise Refused("hoist-not-input", f"An argument is a {type(leaf).__name__}.")
    if _has_list(form):
        raise Refused("hoist-not-input", "An argument is a list, which the function may change.")
    return form


_CONSTANTS = (int, float, bool, str, type(None), torch.device, torch.dtype)


def _has_list(form: Any) -> bool:
    return isinstance(form, list) or (isinstance(form, tuple) and any(map(_has_list, form)))


def _tensors(trace: Trace, nodes: Sequence[Node], name: str) -> Slice:
    """What computes the arguments that are tensors."""
    assert trace.recorder is not None
    if not nodes:
        return Slice(name, (), lambda: ())
    return slice_of(nodes, lambda *values: values, name, trace.recorder, Limits.of_hoists())


def _tried(
    tx: InstructionTranslatorBase, call: HostCall, piece: Slice
) -> tuple[Sequence[torch.Tensor], Any]:
    """What the call gives now."""
    root = tx.output.root_tx
    values = piece.arguments({"L": root.f_locals, "G": root.f_globals})
    # The program warns when it calls the function, not when it is compiled.
    with not_drawn(_generator()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(*values)
        except Refused:
            raise
        except Exception as error:
            pass_on(error)
            raise Refused("hoist-not-input", f"It raises {type(error).__name__}.") from error


def _input(
    tx: InstructionTranslatorBase, kind: type[TensorVariable], source: Source, array: torch.Tensor
) -> TensorVariable:
    """A new input of the graph, on which nothing guards: its shape is checked before the graph."""
    fake = tx.output.fake_mode.from_tensor(array, static_shapes=True)
    tracer = tx.output.root_tracer
    proxy = tracer.create_graph_input("drawn", torch.Tensor, fake, source=source)
    proxy.node.meta["grapharg"] = GraphArg(
        source,
        array,
        pass_arg_as_tensor=False,
        fake_tensor=fake,
        is_tensor=False,
        example_strong_ref=array,
    )
    found = wrap_fx_proxy_cls(kind, tx=tx, proxy=proxy, example_value=fake, subclass_type=None)
    assert isinstance(found, kind)
    return found


def _wrapped(
    tx: InstructionTranslatorBase, described: Any, inputs: Iterator[tuple[Source, torch.Tensor]]
) -> VariableTracker:
    """The value with inputs of the graph for its arrays; lists are new in every call."""
    if described[0] is tuple:
        return TupleVariable([_wrapped(tx, item, inputs) for item in described[1]])
    if described[0] is list:
        items = [_wrapped(tx, item, inputs) for item in described[1]]
        return ListVariable(items, mutation_type=ValueMutationNew())
    if described[0] is None:
        return ConstantVariable.create(None)
    if described[0] in NUMBERS:
        return _input(tx, TensorVariable, *next(inputs)).call_method(tx, "item", [], {})
    return _input(tx, NumpyNdarrayVariable, *next(inputs))
