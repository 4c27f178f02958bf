"""How likely a condition is true that random numbers decide.

Most say it themselves (chances.py). Of others that rest on nothing but what torch draws it is
tried out, with the same numbers each time:

    torch.rand(12)[3] < 0.1
    torch.bernoulli(torch.tensor([0.9])) == 1
    torch.randn([]) < 0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc import config
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, Slice, slice_of
from graphmend_bc.dynamo.graph.fx_nodes import input_source, is_input
from graphmend_bc.dynamo.random_draws.chances import chance
from graphmend_bc.dynamo.random_draws.drawn_values import HostDraws
from graphmend_bc.dynamo.random_draws.foreseen_draws import place_in_draws
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.signal_handlers import pass_on

_SAMPLES = 256
_MOST_ELEMENTS = 4096


@dataclass(slots=True, eq=False)
class Odds(Feature):
    """How likely the conditions of an attempt are true.

    Attributes:
        known: by their nodes; None for one that is not decided by random numbers alone.
    """

    stays: ClassVar[bool] = True

    known: dict[Node, float | None] = field(default_factory=dict)


def chance_of(tx: InstructionTranslatorBase, trace: Trace, truth: TensorVariable) -> float | None:
    """How likely a condition is true that random numbers decide; None for any other.

    Args:
        tx: translator of the frame that asks.
        trace: the attempt that is running.
        truth: the condition, a 0-dim bool tensor.
    """
    node, known = truth.as_proxy().node, trace.of(Odds).known
    if node not in known:
        draws = trace.known(HostDraws)
        found = chance(node, draws.intervals if draws is not None else {})
        if found is None and trace.recorder is not None:
            found = _sampled_chance(tx, trace.recorder, draws, node)
        known[node] = found
    return known[node]


def _sampled_chance(
    tx: InstructionTranslatorBase, recorder: Recorder, draws: HostDraws | None, condition: Node
) -> float | None:
    found = _sampled(tx, recorder, draws, condition, bool)
    return None if found is None else found.count(True) / len(found)


def outcomes_of(
    tx: InstructionTranslatorBase, trace: Trace, node: Node, finish: Callable[[Any], Any]
) -> list[Any]:
    """What follows from a node of the graph, tried out; empty if it rests on more than draws.

    Args:
        tx: translator of the frame that asks.
        trace: the attempt that is running.
        node: of the graph.
        finish: from its value to what is asked for.
    """
    if trace.recorder is None:
        return []
    return _sampled(tx, trace.recorder, trace.known(HostDraws), node, finish) or []


def _sampled(
    tx: InstructionTranslatorBase,
    recorder: Recorder,
    draws: HostDraws | None,
    node: Node,
    finish: Callable[[Any], Any],
) -> list[Any] | None:
    if not _draws_alone(recorder, draws, node):
        return None
    limits = Limits(config.concrete_eval_limit, _MOST_ELEMENTS, draws=True)
    try:
        check_no_function_mode(tx)
        piece = slice_of([node], finish, "", recorder, limits, numbers=True)
        return _samples(piece, draws)
    except Refused:
        return None
    except Exception as error:  # the program finds out by itself what fails
        pass_on(error)
        return None


def _samples(piece: Slice, draws: HostDraws | None) -> list[Any]:
    """What a slice gives, with what was brought before the graph drawn anew each time."""
    given = [place_in_draws(source) for source in piece.sources]
    locals_of = [] if draws is None else draws.locals
    numbers = [(locals_of.index(place[0]), place[1]) for place in given if place is not None]

    def sample() -> object:
        drawn = {number: _drawn_anew(draws, number) for number, _ in numbers}
        return piece.run([drawn[number][index] for number, index in numbers])

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return [sample() for _ in range(_SAMPLES)]


def _drawn_anew(draws: HostDraws | None, number: int) -> Any:
    assert draws is not None
    return draws.draws[number].call()[0]


def _draws_alone(recorder: Recorder, draws: HostDraws | None, condition: Node) -> bool:
    """Whether a node is computed from what torch draws on the CPU, and from nothing else."""
    found, work, drawn = set[Node](), [condition], list[object]()
    while work:
        node = work.pop()
        if is_input(node):
            if not _is_torchs_draw(draws, node):
                return False
            drawn.append(node.meta.get("example_value"))
        elif node not in found:
            found.add(node)
            work += node.all_input_nodes
    drawn += [node.meta.get("example_value") for node in found & recorder.drawing]
    return bool(drawn) and all(
        isinstance(value, torch.Tensor) and value.device.type == "cpu" for value in drawn
    )


def _is_torchs_draw(draws: HostDraws | None, node: Node) -> bool:
    source = input_source(node)
    place = None if source is None or draws is None else place_in_draws(source)
    if place is None or draws is None or place[0] not in draws.locals:
        return False
    draw = draws.draws[draws.locals.index(place[0])]
    return not draw.sources and draw.generators() == [torch.default_generator]
