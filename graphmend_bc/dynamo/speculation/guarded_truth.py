"""A condition that flips: it is computed before the graph, and its value is guarded.

Each value has a compiled version of its own, so that no check is needed after the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.before_graph.apart_guards import guard_apart
from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, Slice, reader, slice_of
from graphmend_bc.dynamo.before_graph.guarded_constants import answer_of
from graphmend_bc.dynamo.before_graph.hoist import evaluated
from graphmend_bc.dynamo.before_graph.prologue import call_in_prologue
from graphmend_bc.dynamo.before_graph.unused_nodes import drop_unused
from graphmend_bc.dynamo.graph.fx_nodes import storages
from graphmend_bc.dynamo.random_draws.foreseen_draws import foreseen, place_in_draws
from graphmend_bc.dynamo.random_draws.graph_draws import draw_before_graph
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deoptimise import deoptimising
from graphmend_bc.runtime.draws import AsForeseen

MOST_GUARDED = 2
"""Most conditions of a trace that are guarded; each doubles the versions that may be compiled."""

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter, int, float, bool))
"""Types whose operators run no code of the user's."""


@dataclass(slots=True, eq=False)
class GuardedTruths(Feature):
    """The conditions of a trace that are guarded, in the order of the trace.

    Attributes:
        values: where they are asked first, with what they are.
        known: what they are, by what computes them.
        nodes: of the graph that compute them.
    """

    order: ClassVar[int] = 56

    values: list[tuple[Site, bool]] = field(default_factory=list)
    known: dict[str, bool] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def on_proof(self, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
        """What only the conditions used has run in the guards of the call, and need not again."""
        drop_unused(gm, self.nodes)


def guarded_truth(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, truth: TensorVariable
) -> bool:
    """The value of a condition in this call, which the compiled version is guarded on.

    Args:
        tx: translator of the frame that asks.
        compilation: what is being compiled.
        site: where it asks.
        truth: the condition, a 0-dim bool tensor.

    Raises:
        Refused: it cannot be computed from the inputs and draws alone, or there are too many.
    """
    truths = compilation.trace.of(GuardedTruths)
    draw_before_graph(tx, compilation, site, truth.as_proxy().node)
    piece = _before_graph(tx, compilation, truth)
    truths.nodes += truth.as_proxy().node, *truth.as_proxy().node.all_input_nodes
    compilation.trace.used[site] = "hoist"
    if piece.label in truths.known:
        return truths.known[piece.label]
    ahead = piece if not draws(piece) else foreseen(piece, compilation.trace)
    value: bool = evaluated(tx, ahead)
    if ahead is not piece:
        # Another thread may draw between the guard and the frame's own draw.
        asks = deoptimising(AsForeseen(piece.run, value))
        call_in_prologue(tx, asks, piece.sources, "foreseen")
    again = _Asked(ahead.label, ahead.sources, ahead.function, shared=ahead.shared)
    install_guard(HoistedSource(again.label, again).make_guard(GuardBuilder.CONSTANT_MATCH))
    truths.values.append((site, value))
    truths.known[piece.label] = value
    return value


def can_be_guarded(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, truth: TensorVariable
) -> bool:
    """Whether `guarded_truth` would not refuse; the arguments are the same."""
    try:
        _before_graph(tx, compilation, truth)
    except Refused:
        return False
    return True


def _before_graph(
    tx: InstructionTranslatorBase, compilation: Compilation, truth: TensorVariable
) -> Slice:
    """What computes a condition; one that is asked again is the same by its label."""
    known = compilation.trace.of(GuardedTruths).known
    piece = slice_of_truths(tx, compilation, [truth.as_proxy().node], bool, "truth value")
    if piece.label not in known and len(known) >= MOST_GUARDED:
        raise Refused("hoist-varies", f"More than {MOST_GUARDED} conditions of the graph flip.")
    return piece


def slice_of_truths(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    truths: Sequence[Node],
    finish: Callable[..., Any],
    name: str,
) -> Slice:
    """What computes conditions before the graph.

    Args:
        tx, compilation: as for `guarded_truth`.
        truths: the conditions, 0-dim bool tensors.
        finish, name: as for `slice_of`.

    Raises:
        Refused: they cannot be computed from the inputs alone, by operators that run no code of the
            user's.
    """
    trace = compilation.trace
    recorder = trace.recorder
    assert recorder is not None
    if recorder.foreign or recorder.guarded or tx.output.random_calls or trace.predicates:
        raise Refused("hoist-not-input", "Eager Python may not get as far as to ask it.")
    check_no_function_mode(tx)
    nodes = [_uncopied(node, recorder) for node in truths]
    piece = slice_of(nodes, finish, name, recorder, Limits.of_hoists(), numbers=True)
    guard_apart(piece)
    root = tx.output.root_tx
    scope = {"L": root.f_locals, "G": root.f_globals}
    given = [reader(s)(scope) for s in piece.sources if place_in_draws(s) is None]
    if not all(type(argument) in _PLAIN for argument in given):
        raise Refused("hoist-not-input", "It asks a tensor of a class of its own.")
    return piece


def draws(piece: Slice) -> bool:
    """Whether a slice asks for numbers that are drawn before the graph."""
    return any(place_in_draws(source) is not None for source in piece.sources)


def _uncopied(node: Node, recorder: Recorder) -> Node:
    """What a condition is a copy of, unless that may have been changed since."""
    while node.op == "call_method" and node.target in ("clone", "detach") and len(node.args) == 1:
        original = node.args[0]
        if not isinstance(original, Node) or not storages([original]).isdisjoint(recorder.written):
            break
        node = original
    return node


class _Asked(Slice):
    """Where computing raises there is no answer, and the frame is compiled anew."""

    def fresh(self, scope: dict[str, Any]) -> Any:
        return answer_of(lambda: Slice.fresh(self, scope))
