"""What is drawn before the graph, as inputs of it: arrays, numbers, and containers of these.

Nothing guards on what is drawn. The graph rests on shapes and types only; if they are others, or if
the graph cannot be used for another reason, the generators are set back and the frame's original
code runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import CO_GENERATOR
from typing import Any, ClassVar

import torch
from torch._dynamo.source import GetItemSource, SyntheticLocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builder import GraphArg, wrap_fx_proxy_cls
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.tensor import NumpyNdarrayVariable, TensorVariable
from torch._guards import Source
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from graphmend_bc.dynamo.before_graph.apart_guards import guard_apart
from graphmend_bc.dynamo.before_graph.call_template import TENSOR, template_of
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, Slice, reader, slice_of
from graphmend_bc.dynamo.before_graph.host_function import NUMBERS
from graphmend_bc.dynamo.before_graph.prologue import call_in_prologue
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.graph.fx_nodes import name_called
from graphmend_bc.dynamo.random_draws.chances import Interval
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace, is_saving
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deoptimise import deoptimising
from graphmend_bc.runtime.draws import Drawn, Draws, not_drawn
from graphmend_bc.runtime.signal_handlers import pass_on


@dataclass(slots=True, eq=False)
class HostDraws(Feature):
    """What is drawn before the graph.

    Attributes:
        sites: calls that draw from a generator of the host, in order.
        draws: what they draw.
        locals: the variables of the generated code that hold what they give.
        state: what they leave the generators as, if the graph is not used.
        intervals: what single numbers are drawn from, by the local variables that hold them.
    """

    order: ClassVar[int] = 60

    sites: list[Site] = field(default_factory=list)
    draws: list[HostDraw] = field(default_factory=list)
    locals: list[str] = field(default_factory=list)
    state: Draws = field(default_factory=Draws)
    intervals: dict[str, Interval] = field(default_factory=dict)

    def add(
        self,
        tx: InstructionTranslatorBase,
        compilation: Compilation,
        site: Site,
        draw: HostDraw,
        wanted: Any,
    ) -> str:
        """Have a call made before the graph.

        Args:
            tx: translator of the frame that has the call.
            compilation: what is being compiled.
            site: the call.
            draw: what it does.
            wanted: what the graph rests on.

        Returns:
            The variable of the generated code that holds what it gives.
        """
        told = compilation.outcomes.site_failed
        mismatched = partial(told, site, "hoist-varies", "It gave something else")
        drawn = deoptimising(Drawn(self.state, draw.generators, draw.call, wanted, mismatched))
        call = drawn if self.sites else self.state.beginning(drawn)
        self.sites.append(site)
        self.draws.append(draw)
        compilation.trace.used[site] = "draw"
        local = call_in_prologue(tx, call, draw.sources, "drawn")
        self.locals.append(local)
        if draw.interval is not None:
            self.intervals[local] = draw.interval
        return local

    def rolls_back(self) -> RollbackNeed:
        return RollbackNeed.WORTH_COPIES if self.sites else RollbackNeed.NOT_NEEDED

    def blamed(self) -> Iterable[Site]:
        return self.sites

    def on_commit(self, compilation: Compilation) -> bool:
        return bool(self.sites)

    def roll_back(self) -> Callable[[], None] | None:
        return self.state.roll_back if self.sites else None


@dataclass(frozen=True, slots=True, eq=False)
class HostDraw:
    """A call that draws.

    Attributes:
        sources: where it finds in the frame what it is given.
        call: from these values to tensors and what the graph rests on, as `HostCall` gives it.
        generators: from the same values to the generators that it draws from; None if it would
            call something else than in the trace.
        interval: what it draws a single number from evenly; None if it does something else.
        on: the same as `call` from a generator in place of its own, and the same values; None if
            what is called cannot be given another generator.
    """

    sources: Sequence[Source]
    call: Callable[..., tuple[Any, Any]]
    generators: Callable[..., Sequence[Any] | None]
    interval: Interval | None = None
    on: Callable[..., tuple[Any, Any]] | None = None

    def values_in(self, tx: InstructionTranslatorBase) -> list[Any]:
        """What it is given in this call of the frame."""
        root = tx.output.root_tx
        scope = {"L": root.f_locals, "G": root.f_globals}
        return [reader(source)(scope) for source in self.sources]


def drawn_before_graph(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, draw: HostDraw
) -> VariableTracker:
    """What a call gives that is made before the graph.

    Args:
        tx: translator of the frame that has the call.
        compilation: what is being compiled.
        site: the call.
        draw: what it does.

    Raises:
        Refused: it gives something that no input of a graph can be, or raises.
    """
    arrays, described = tried(tx, draw)
    if not compilation.captures and (number := _number_in(described)) is not None:
        raise Refused("hoist-not-input", f"It gives a {number.__name__}.")
    local = compilation.trace.of(HostDraws).add(tx, compilation, site, draw, described)
    base = SyntheticLocalSource(local)
    inputs = ((GetItemSource(base, i), array) for i, array in enumerate(arrays))
    return _wrapped(tx, described, inputs)


def check_always_runs(tx: InstructionTranslatorBase, trace: Trace) -> None:
    """Refuse where the function may be called in another order, or not at all."""
    if tx.export or is_saving():
        raise Refused("under-export")
    if hasattr(tx.output, "compile_subgraph_reason"):  # what is called before it is written down
        raise Refused("hoist-not-input", "It is called by what Dynamo runs to its end.")
    check_is_outermost(tx)
    if trace.arms or is_cached(trace):
        raise Refused("hoist-not-input", "The function is not called every time.")
    caller: Any = tx.parent
    while caller is not None:
        if caller.f_code.co_flags & CO_GENERATOR:
            raise Refused("hoist-not-input", "The function is called in a generator.")
        caller = caller.parent


def argument_form(value: VariableTracker, nodes: list[Node], keeps_lists: bool = False) -> Any:
    """An argument as `HostCall` has it.

    Args:
        value: the argument.
        nodes: the nodes of tensors in it are added here.
        keeps_lists: whether the function is known to change no list.

    Raises:
        Refused: it is something that cannot be given before the graph.
    """
    known = len(nodes)
    form = template_of(value, nodes)
    if any(node.meta["example_value"].requires_grad for node in nodes[known:]):
        raise Refused("hoist-not-input", "An argument requires a gradient.")
    for leaf in tree_leaves(form):
        if leaf is not TENSOR and type(leaf) not in _CONSTANTS:
            raise Refused("hoist-not-input", f"An argument is a {type(leaf).__name__}.")
    if not keeps_lists and _has_list(form):
        raise Refused("hoist-not-input", "An argument is a list, which the function may change.")
    return form


_CONSTANTS = (int, float, bool, str, range, type(None), torch.device, torch.dtype)


def _has_list(form: Any) -> bool:
    return isinstance(form, list) or (isinstance(form, tuple) and any(map(_has_list, form)))


def tensors_of_arguments(trace: Trace, nodes: Sequence[Node], name: str) -> Slice:
    """What computes the arguments that are tensors, from the frame's inputs."""
    assert trace.recorder is not None
    if not nodes:
        return Slice(name, (), lambda: ())
    piece = slice_of(nodes, lambda *values: values, name, trace.recorder, Limits.of_hoists())
    guard_apart(piece)
    return piece


def check_inference_mode(tx: InstructionTranslatorBase) -> None:
    """Refuse where a tensor that is made here may be one of inference, and not before the graph."""
    if any(name_called(node) == "_enter_inference_mode" for node in tx.output.graph.nodes):
        raise Refused("hoist-not-input", "The graph switches inference mode.")


def tried(tx: InstructionTranslatorBase, draw: HostDraw) -> tuple[Sequence[torch.Tensor], Any]:
    """What a call gives now, which leaves the generators as they are.

    Args:
        tx: translator of the frame that has the call.
        draw: what it does.

    Raises:
        Refused: it raises, or would not draw from the generators that it should.
    """
    values = draw.values_in(tx)
    generators = draw.generators(*values)
    if generators is None:
        raise Refused("hoist-not-input", "The function is another one now.")
    # The program warns when it calls the function, not when it is compiled.
    with not_drawn(generators), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return draw.call(*values)
        except Refused:
            raise
        except Exception as error:
            pass_on(error)
            raise Refused("hoist-not-input", f"It raises {type(error).__name__}.") from error


def _number_in(described: Any) -> type | None:
    """The type of a number among what a function gives; None if there is none."""
    if described[0] in (list, tuple):
        return next(filter(None, map(_number_in, described[1])), None)
    return described[0] if described[0] in NUMBERS else None


def unguarded(source: Source, drawn: torch.Tensor, fake: Any) -> GraphArg:
    """What an input of the graph is, on which nothing guards.

    Args:
        source: where generated code has what is drawn.
        drawn: what that is in the call that is compiled.
        fake: its fake tensor.
    """
    return GraphArg(
        source,
        drawn,
        pass_arg_as_tensor=False,
        fake_tensor=fake,
        is_tensor=False,
        example_strong_ref=drawn,
    )


def input_of(
    tx: InstructionTranslatorBase,
    kind: type[TensorVariable],
    source: Source,
    array: torch.Tensor,
    fake: Any = None,
) -> TensorVariable:
    """A new input of the graph, on which nothing guards: its shape is checked before the graph.

    Args:
        tx: translator of any frame of the trace.
        kind: of variable.
        source, array: as `unguarded` has them.
        fake: its fake tensor, if its shape is not that of the array in every call.
    """
    if fake is None:
        fake = tx.output.fake_mode.from_tensor(array, static_shapes=True)
    tracer = tx.output.root_tracer
    proxy = tracer.create_graph_input("drawn", torch.Tensor, fake, source=source)
    proxy.node.meta["grapharg"] = unguarded(source, array, fake)
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
        return input_of(tx, TensorVariable, *next(inputs)).call_method(tx, "item", [], {})
    return input_of(tx, NumpyNdarrayVariable, *next(inputs))
