"""`nn.LSTM` where a backend has an operator for each of its layers: on the CPU, without gradients.

Dynamo can trace recurrent modules, but does so only if it is told to: what AOTAutograd makes of
most is a graph with each step of the sequence, and it forgets the dropout between layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import guard_on
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime import Marker


def _marked(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    return RecurrentCallee(marker.site, args[0], compilation)


class RecurrentCallee(MarkedCalleeVariable):
    """What is called, if it is a recurrent module."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        source = self.callee.source
        root = tx.output.root_tx
        scope = {"L": root.f_locals, "G": root.f_globals}
        module = None if source is None else source.get_value(scope, {}, {})
        if source is None or not isinstance(module, torch.nn.RNNBase):
            return None
        if tx.export:
            raise Refused("under-export")
        _check_module(module)
        _check_inputs(module, [*_tensors((*args, *kwargs.values()))])
        guard_on("oneDNN is used", torch._C._get_mkldnn_enabled, True)
        with torch._dynamo.config.patch(allow_rnn=True):
            traced = VariableBuilder(tx, source)(module)
            result: VariableTracker = traced.call_function(tx, args, kwargs)
        self.compilation.trace.used[self.site] = "inline"
        return result


def _check_module(module: torch.nn.RNNBase) -> None:
    """Refuse a module of which backends make a graph of its steps."""
    if type(module) is not torch.nn.LSTM or module.proj_size:
        raise Refused("call-not-traced", "A backend would make a graph with each of its steps.")
    if module.training and module.dropout and module.num_layers > 1:
        raise Refused("call-not-traced", "A backend would forget the dropout between its layers.")
    if not torch._C._get_mkldnn_enabled() or torch.is_autocast_enabled("cpu"):
        raise Refused("call-not-traced", "It does not run by oneDNN.")


def _check_inputs(module: torch.nn.RNNBase, inputs: list[torch.Tensor]) -> None:
    tensors = [*module.parameters(), *inputs]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise Refused("call-not-traced", "A gradient may be asked for.")
    plain = all(type(weight) is torch.nn.Parameter for weight in module.parameters())
    kinds = {(tensor.device.type, tensor.dtype) for tensor in tensors}
    if not plain or kinds != {("cpu", torch.float32)}:
        raise Refused("call-not-traced", "It does not compute with floats of 32 bits on the CPU.")


def _tensors(given: tuple[VariableTracker, ...]) -> Iterator[torch.Tensor]:
    """The tensors that a module is called with: a sequence, and the state it begins with."""
    for value in given:
        known = value.realize()
        if type(known) is TupleVariable:
            yield from _tensors(tuple(known.items))
        elif is_plain(known):
            fake: Any = known.as_proxy().node.meta["example_value"]
            yield fake
        elif not known.is_constant_none():
            raise Refused("call-not-traced", f"It is called with {known}.")


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(in_order=False)} if site.gb_type and site.is_call else None


# The second since torch 2.15.
_BREAKS = frozenset({"Attempted to wrap RNN, GRU, or LSTM", "Unsupported function call (delayed)"})

RECURRENT = Rule("recurrent", "inline", 11, _matches, _BREAKS, handler=_marked)
"""A recurrent module is traced, which Dynamo does only if it is told to."""

RULES = (RECURRENT,)
