"""Which way a condition goes in the very call that a frame is compiled for.

The first speculation on a condition is best made with the values at hand: the part of the graph
that computes the condition is run once, without a gradient. Whatever stands in the way of that is
no harm, because the speculation is checked after the graph like any other.
"""

from __future__ import annotations

import logging

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc import config
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, Slice, slice_of
from graphmend_bc.dynamo.before_graph.hoist import Hoists
from graphmend_bc.dynamo.before_graph.subgraphs import levels_of
from graphmend_bc.dynamo.graph.fx_nodes import is_input, with_ancestors
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.dynamo.trace.tracing import functions_around
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import with_references
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")


def evaluate_concretely(
    tx: InstructionTranslatorBase, trace: Trace, truth: TensorVariable, limit: int | None = None
) -> bool | None:
    """The value of a condition in this call, or None if it is not to be had for free.

    Args:
        tx: translator of the frame that asks.
        trace: the attempt that is running.
        truth: the condition, a 0-dim bool tensor.
        limit: most operators to run; None for `config.concrete_eval_limit`.
    """
    piece = _computing(tx, trace, truth, _limits(limit))
    return None if piece is None else _value(tx, piece)


def constant_truth(
    tx: InstructionTranslatorBase, trace: Trace, truth: TensorVariable
) -> bool | None:
    """The value of a condition that rests on no input: it is the same in every call.

    Args:
        tx: translator of the frame that asks.
        trace: the attempt that is running.
        truth: the condition.

    Returns:
        None if it rests on an input, or is not to be had for free.
    """
    node = truth.as_proxy().node
    if any(map(is_input, with_ancestors([node]))):
        return None
    piece = _computing(tx, trace, truth, Limits.of_hoists())
    # What was written to its memory rests on inputs as well.
    value = None if piece is None or piece.sources else _value(tx, piece)
    if value is not None:
        trace.of(Hoists).nodes += [*node.all_input_nodes, node]
    return value


def _computing(
    tx: InstructionTranslatorBase, trace: Trace, truth: TensorVariable, limits: Limits
) -> Slice | None:
    """What computes a condition; None if it must not be run ahead."""
    recorder = trace.recorder
    assert recorder is not None
    # An operator that stops the process may stand behind a speculation that is wrong.
    if recorder.foreign or recorder.guarded or tx.output.random_calls:
        return None
    try:
        check_no_function_mode(tx)
        levels = levels_of(tx) if functions_around(tx) else None
        nodes = [truth.as_proxy().node]
        return slice_of(nodes, bool, "", recorder, limits, numbers=True, levels=levels)
    except Refused as refused:
        why = with_references(refused)
        log.debug("graphmend_bc does not compute the condition of this call: %s", why)
        return None


def _value(tx: InstructionTranslatorBase, piece: Slice) -> bool | None:
    """What a condition is in this call; None if it raises, or asks code of the user's."""
    root = tx.output.root_tx
    try:
        arguments = piece.arguments({"L": root.f_locals, "G": root.f_globals})
        if all(type(a) in _PLAIN for a in arguments):
            return bool(piece.run(arguments))
    except Exception as error:  # what it is that fails is found out by the program itself
        pass_on(error)
        log.debug("graphmend_bc could not compute the condition of this call.", exc_info=True)
    return None


def _limits(limit: int | None) -> Limits:
    most = config.concrete_eval_limit
    return Limits(most, dear=True) if limit is None else Limits(min(limit, most))


_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, int, float, bool))
"""Types whose operators run no code of the user's."""
