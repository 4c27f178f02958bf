"""Functions that draw from NumPy's generator: called before the graph, their arrays are inputs.

Nothing guards on what is drawn. The graph rests on shapes and types only; if they are others, or if
the graph cannot be used for another reason, the generator is set back and the frame's original code
runs.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from inspect import CO_GENERATOR
from types import FunctionType
from typing import Any

import torch
from torch._dynamo.source import GetItemSource, SyntheticLocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builder import GraphArg, wrap_fx_proxy_cls
from torch._dynamo.variables.functions import NestedUserFunctionVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable
from torch._dynamo.variables.tensor import NumpyNdarrayVariable
from torch._guards import Source
from torch.fx import Node
from torch.utils._pytree import tree_leaves

from graphmend_bc.dynamo.asking import guard_on
from graphmend_bc.dynamo.before_graph import call_before_graph
from graphmend_bc.dynamo.compilation import Compilation, Trace
from graphmend_bc.dynamo.host_call import HostCall
from graphmend_bc.dynamo.operands import TENSOR, form_of
from graphmend_bc.dynamo.select import check_is_outermost
from graphmend_bc.dynamo.slices import Limits, Slice, slice_of
from graphmend_bc.legality.host_code import check_host_code
from graphmend_bc.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.draws import Drawn, Draws, not_drawn


def drawn(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    function: VariableTracker,
    args: Sequence[VariableTracker],
) -> VariableTracker:
    """What a function gives, as an input of the graph.

    Args:
        tx: translator of the function that was made one call.
        compilation: what is being compiled.
        site: the call.
        function: the copy of the function.
        args: its arguments.

    Raises:
        Refused: it could be noticed that it runs before the graph.
    """
    trace = compilation.trace
    _check_always_runs(tx, trace)
    assert isinstance(function, NestedUserFunctionVariable)
    code, scope = function.get_code(), tx.f_globals
    known = check_host_code(code, scope)
    nodes: list[Node] = []
    arguments = [_argument(arg, nodes) for arg in args]
    name = f"{site.name}:{site.lineno} {len(trace.draws)} draws"
    piece = _tensors(trace, nodes, name)
    call = HostCall(FunctionType(code, scope), arguments, lambda *values: piece.run(values))
    arrays, described = _tried(tx, call, piece)
    guard_on(f"names in {site}", lambda: all(item.is_still() for item in known))
    draws = trace.drawing = trace.drawing or Draws(_generator())
    missed = partial(compilation.draw_missed, site)
    before = Drawn(draws, not trace.draws, call, described, missed)
    base = SyntheticLocalSource(call_before_graph(tx, before, piece.sources, "drawn"))
    trace.draws.append(site)
    trace.used[site] = "draw"
    inputs = [_input(tx, GetItemSource(base, i), array) for i, array in enumerate(arrays)]
    return _wrapped(described, iter(inputs))


def _check_always_runs(tx: InstructionTranslatorBase, trace: Trace) -> None:
    """Refuse where the function may be called in another order, or not at all."""
    if tx.export:
        raise Refused("under-export")
    check_is_outermost(tx)
    if trace.arms or trace.caches:
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
            raise Refused("hoist-not-input", f"It raises {type(error).__name__}.") from error


def _input(
    tx: InstructionTranslatorBase, source: Source, array: torch.Tensor
) -> NumpyNdarrayVariable:
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
    found = wrap_fx_proxy_cls(
        NumpyNdarrayVariable, tx=tx, proxy=proxy, example_value=fake, subclass_type=None
    )
    assert isinstance(found, NumpyNdarrayVariable)
    return found


def _wrapped(described: Any, inputs: Iterator[VariableTracker]) -> VariableTracker:
    """The value with inputs of the graph for its arrays; lists are new in every call."""
    if described[0] is tuple:
        return TupleVariable([_wrapped(item, inputs) for item in described[1]])
    if described[0] is list:
        items = [_wrapped(item, inputs) for item in described[1]]
        return ListVariable(items, mutation_type=ValueMutationNew())
    return next(inputs)
