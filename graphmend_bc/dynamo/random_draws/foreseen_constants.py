"""What follows from torch's draws alone, a constant of the trace: a guard draws it ahead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch.fx import Node

from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, Slice, slice_of
from graphmend_bc.dynamo.before_graph.guarded_constants import answer_of
from graphmend_bc.dynamo.before_graph.hoist import evaluated
from graphmend_bc.dynamo.before_graph.prologue import call_in_prologue
from graphmend_bc.dynamo.random_draws.drawn_values import check_always_runs
from graphmend_bc.dynamo.random_draws.foreseen_draws import foreseen, place_in_draws
from graphmend_bc.dynamo.random_draws.graph_draws import draw_before_graph
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deoptimise import deoptimising
from graphmend_bc.runtime.draws import AsForeseen


def foreseen_constant(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    node: Node,
    finish: Callable[[Any], Any],
    name: str,
) -> Any:
    """What follows from a node in this call; another value of it is compiled anew.

    Args:
        tx: translator of the frame that asks.
        compilation: what is being compiled.
        site: where it asks.
        node: of the graph; computed from what torch draws.
        finish: from the node's value to numbers, text, or tuples and lists of these.
        name: says all that `finish` does.

    Raises:
        Refused: the node rests on more than draws, or something is drawn before that cannot be
            drawn before the graph.
    """
    check_always_runs(tx, compilation.trace)
    check_no_function_mode(tx)
    draw_before_graph(tx, compilation, site, node)
    piece = _drawn_alone(compilation, node, finish, name)
    ahead = foreseen(piece, compilation.trace)
    value = evaluated(tx, ahead)
    text = repr(value)
    # Another thread may draw between the guard and the frame's own draw.
    asks = deoptimising(AsForeseen(lambda drawn: repr(piece.run(drawn)) == text, True))
    call_in_prologue(tx, asks, piece.sources, "foreseen")
    again = Slice(
        ahead.label,
        ahead.sources,
        lambda *values: repr(answer_of(partial(ahead.function, *values))),
    )
    install_guard(HoistedSource(again.label, again).make_guard(GuardBuilder.CONSTANT_MATCH))
    return value


def _drawn_alone(
    compilation: Compilation, node: Node, finish: Callable[[Any], Any], name: str
) -> Slice:
    """What computes the value from the draws.

    Raises:
        Refused: it asks an input as well, which may be another one in the next call.
    """
    recorder = compilation.trace.recorder
    assert recorder is not None
    piece = slice_of([node], finish, name, recorder, Limits.of_hoists(), numbers=True)
    if not piece.sources or None in map(place_in_draws, piece.sources):
        raise Refused("hoist-not-input", "It rests on more than random draws.")
    return piece
