"""`nn.LSTM`, `nn.GRU` and `nn.RNN` on the CPU, without gradients.

Dynamo can trace recurrent modules, but does so only if it is told to: what AOTAutograd makes of
most is a graph with each step of the sequence, and it forgets the dropout between layers. For a
layer of `nn.LSTM` backends have one operator; for the others there is one of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.graph_slice import reader
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.calls.markers import marker_as_python
from graphmend_bc.dynamo.graph import recurrent_operators
from graphmend_bc.dynamo.graph.backends import is_inductor, runs_as_traced
from graphmend_bc.dynamo.graph.fx_nodes import name_called, tensors_of
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import CallOperation, MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import CalledOperation, GetAttribute, Marker, Site


@dataclass(slots=True, eq=False)
class Recurrent(Feature):
    """Recurrent modules that are traced.

    Attributes:
        sites: where they are called, or fetched to be called.
        has_ours: whether an operator of ours may be put in the place of torch's.
    """

    order: ClassVar[int] = 43

    sites: list[Site] = field(default_factory=list)
    has_ours: bool = False

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """Show that each of their operators is one that backends have, too."""
        if facts.FAILS_IN_INFERENCE_MODE and "_enter_inference_mode" in map(
            name_called, gm.graph.nodes
        ):
            raise SiteRefused(Refused("call-not-traced", _INFERENCE), *dict.fromkeys(self.sites))
        nodes = [node for node in gm.graph.nodes if name_called(node) in _OPERATORS]
        for refused in filter(None, map(_problem, nodes)):
            raise SiteRefused(refused, *dict.fromkeys(self.sites))


_OPERATORS = ("lstm", *recurrent_operators.NAMES)


_GRADIENT = (
    "A gradient may be asked for; without one, as under torch.no_grad(), the recurrent module is"
    " traced. With one Dynamo traces it if torch._dynamo.config.allow_rnn is set."
)
_INFERENCE = "This torch fails to compile it in inference mode. Use torch.no_grad() there."
_FORGETS = "A backend would forget the dropout between its layers."
_WITHOUT = (
    "AOTAutograd runs it without gradients, where oneDNN has another kernel, and the last digits"
    " differ. Call the recurrent module under torch.no_grad()."
)
_STEPS = (
    "A backend would make a graph with each step of the recurrent module; Dynamo traces it if"
    " torch._dynamo.config.allow_rnn is set."
)


def _problem(node: Node) -> Refused | None:
    """Why a backend would make more of an operator than one for each layer; None if not."""
    if name_called(node) != "lstm" or len(node.args) != _ARGUMENTS or node.kwargs:
        return Refused("call-not-traced", _STEPS)
    _, state, _, _, layers, dropout, training, *_ = node.args
    if not isinstance(state, (tuple, list)):  # the sizes of a packed sequence
        return Refused("call-not-traced", _STEPS)
    if training and dropout and layers != 1:
        return Refused("call-not-traced", _FORGETS)
    given = [tensor for each in node.all_input_nodes for tensor in tensors_of(each)]
    if any(tensor.requires_grad for tensor in tensors_of(node)):
        return Refused("call-not-traced", _GRADIENT)
    if {(tensor.device.type, tensor.dtype) for tensor in given} != {("cpu", torch.float32)}:
        return Refused("call-not-traced", "It is not about floats of 32 bits on the CPU.")
    return None


_ARGUMENTS = 9
"""Of the operator, from the sequence to whether batches come first."""


def _put_ours(output: OutputGraph) -> None:
    """From now on, put our operators into a graph in place of torch's, where they are the same."""
    stock = output.create_proxy

    def create_proxy(kind: str, target: Any, args: Any, kwargs: Any, *rest: Any) -> Any:
        name = next((name for name in recurrent_operators.NAMES if target is _torchs(name)), "")
        if name and not kwargs and _is_same(args):
            target = recurrent_operators.one_operator(name)
            learn = [tensor.requires_grad for tensor in _tensors(args)]
            # The dropout between layers is off; its rate may be a symbol.
            args = (learn, *args[:5], 0.0, *args[6:])
        return stock(kind, target, args, kwargs, *rest)

    output.create_proxy = create_proxy  # type: ignore[method-assign]


def _torchs(name: str) -> object:
    """The function that a module of torch calls for a layer."""
    found: object = getattr(torch._VF, name)
    return found


def _is_same(args: Sequence[Any]) -> bool:
    """Whether an operator of ours does what torch's does with such arguments."""
    if len(args) != _ARGUMENTS or not isinstance(args[2], (list, tuple)):  # a packed sequence
        return False
    given = _tensors(args)
    _, _, _, has_biases, layers, dropout, training, both, rows_first = args
    if not all(
        type(each) in (bool, int) for each in (has_biases, layers, training, both, rows_first)
    ):
        return False
    return (
        len({tensor.dtype for tensor in given}) == 1
        and given[0].dtype in (torch.float32, torch.float64)
        and all(tensor.device.type == "cpu" for tensor in given)
        and all(type(tensor) in (FakeTensor, torch.nn.Parameter) for tensor in given)
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given))
        and not (training and layers != 1 and (not isinstance(dropout, float) or dropout))
    )


def _traced(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: a recurrent module that is called, or fetched."""
    if not isinstance(marker, CalledOperation):
        return RecurrentCallee(marker.site, args[0], compilation)
    try:
        _note(tx, compilation, marker.site, _fetched(tx, marker, args))
    except Refused as refused:
        compilation.trace.refused[marker.site] = refused
        return marker_as_python(tx, marker, args)
    with torch._dynamo.config.patch(allow_rnn=True):
        return marker_as_python(tx, marker, args).realize()


def _fetched(
    tx: InstructionTranslatorBase, marker: CalledOperation, args: list[VariableTracker]
) -> object:
    """The module that an attribute of another one is; None if it is something else."""
    (owner,) = args[0].unpack_var_sequence(tx)
    parent = getattr(owner.realize(), "value", None)
    known = vars(parent).get("_modules", {}) if isinstance(parent, torch.nn.Module) else {}
    name = marker.function.name if isinstance(marker.function, GetAttribute) else ""
    found: object = known.get(name)
    return found


class RecurrentCallee(MarkedCalleeVariable):
    """What is called, if it is a recurrent module."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        source, root = self.callee.source, tx.output.root_tx
        scope = {"L": root.f_locals, "G": root.f_globals}
        module = None if source is None else reader(source)(scope)
        if source is None or not isinstance(module, torch.nn.RNNBase):
            return None
        _note(tx, self.compilation, self.site, module)
        with torch._dynamo.config.patch(allow_rnn=True):
            traced = VariableBuilder(tx, source)(module)
            if getattr(traced, "value", None) is not module:  # what it was before, since torch 2.15
                traced = VariableBuilder(tx, source)._wrap(module)
            result: VariableTracker = traced.call_function(tx, args, kwargs)
        return result


def _tensors(args: Sequence[Any]) -> list[torch.Tensor]:
    """The sequence, the state and the weights."""
    return [found for arg in (args[0], args[1], *args[2]) for found in tensors_of(arg.node)]


def _note(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, module: object
) -> None:
    """A module is about to be traced.

    Raises:
        Refused: backends would make a graph of its steps.
    """
    if tx.export:
        raise Refused("under-export")
    _check_module(module)
    known = compilation.trace.of(Recurrent)
    if isinstance(module, torch.nn.LSTM):
        backend = tx.output.compiler_fn
        if torch.is_grad_enabled() and not (runs_as_traced(backend) or is_inductor(backend)):
            raise Refused("call-not-traced", _WITHOUT)
        guard_on("oneDNN is used", torch._C._get_mkldnn_enabled, True)
    elif not known.has_ours:
        _check_ours(tx, compilation)
        _put_ours(tx.output)
        known.has_ours = True
    known.sites.append(site)
    compilation.trace.used[site] = "inline"


def _check_module(module: object) -> None:
    """Refuse a module of which backends make a graph of its steps."""
    if type(module) is torch.nn.LSTM:
        if module.proj_size:
            raise Refused("call-not-traced", _STEPS)
        if not torch._C._get_mkldnn_enabled():
            raise Refused("call-not-traced", "It does not run by oneDNN.")
    elif type(module) not in (torch.nn.GRU, torch.nn.RNN):
        raise Refused("call-not-traced", _STEPS)
    assert isinstance(module, torch.nn.RNNBase)
    plain = all(type(weight) is torch.nn.Parameter for weight in module.parameters())
    if not plain or (torch.is_grad_enabled() and any(w.requires_grad for w in module.parameters())):
        raise Refused("call-not-traced", _GRADIENT)
    if module.training and module.dropout and module.num_layers > 1:
        raise Refused("call-not-traced", _FORGETS)
    if torch.is_autocast_enabled("cpu"):
        raise Refused("call-not-traced", "Under autocast it computes with numbers of other types.")


def _check_ours(tx: InstructionTranslatorBase, compilation: Compilation) -> None:
    """Refuse an operator of ours where somebody looks for torch's."""
    check_is_outermost(tx)
    if compilation.is_saved:
        raise Refused("under-export", "Its operator is not there where the graph is loaded.")
    if forward_ad._current_level >= 0:
        raise Refused("call-not-traced", _GRADIENT)


def _matches(site: BreakSite) -> Rewrites | None:
    if not site.gb_type:
        return None
    if site.op.name in ("LOAD_ATTR", "LOAD_METHOD"):  # where Dynamo looks at it until torch 2.15
        return {site.offset: CallOperation()}
    return {site.offset: MarkCallee(in_order=False)} if site.is_call else None


# The second since torch 2.15.
_BREAKS = frozenset({"Attempted to wrap RNN, GRU, or LSTM", "Unsupported function call (delayed)"})

RECURRENT = Rule("recurrent", "inline", 11, _matches, _BREAKS, handler=_traced)
"""A recurrent module is traced, which Dynamo does only if it is told to."""

RULES = (RECURRENT,)
