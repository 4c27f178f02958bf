"""The checks of what a graph assumes.

Each speculation adds a 0-dim bool tensor to the graph: True if the speculation was wrong and
mattered. At the end of the graph they become outputs that only the wrapper around the compiled
graph sees (watched_graph.py). On an accelerator there are two, which were wrong and whether any
was. On the CPU each is one, and often the condition itself, which needs no operator of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch._dynamo.output_graph import SubgraphTracer
from torch._dynamo.symbolic_convert import InstructionTranslator, InstructionTranslatorBase
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc.dynamo.before_graph.subgraphs import CheckpointedSites
from graphmend_bc.dynamo.frames.inlined_frames import InlinedFrames
from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.random_draws.odds import chance_of
from graphmend_bc.dynamo.speculation.check_outputs import CheckOutputs
from graphmend_bc.dynamo.speculation.index_bounds import check_index_bounds
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_MOST_MISSED = 1 / 4
"""In how many calls of one checks may fail because of random numbers. Where they fail more often,
the pieces that a break leaves are the cheaper way."""

_MOST_READ = 32
"""Checks that are read one by one from the CPU; more of them are put together in the graph."""


@dataclass(slots=True, eq=False)
class Checks(Feature):
    """The checks of the speculations of an attempt.

    Attributes:
        drawn: predicates that may rest on random draws.
        places: where each of the speculations was made, in their order.
        first: how many nodes the graph had when a site was reached first.
        missed: in how many calls of one a check fails because random numbers decide.
        conditions: by the nodes that say whether a speculation was wrong, the condition and its
            value, if there are no arms around it.
        outputs: what the outputs mean that the checks become.
        inner: checks that `forward` of an autograd function has to give to the graph around it.
    """

    order: ClassVar[int] = 30

    drawn: list[TensorVariable] = field(default_factory=list)
    places: list[InlinedFrames] = field(default_factory=list)
    first: dict[Site, int] = field(default_factory=dict)
    missed: float = 0.0
    conditions: dict[Node, tuple[TensorVariable, bool]] = field(default_factory=dict)
    outputs: CheckOutputs = field(default_factory=CheckOutputs)
    inner: list[TensorVariable] = field(default_factory=list)

    def missed_with(self, odds: float) -> float:
        """In how many calls of one a check fails with one more condition, as likely as that."""
        return self.missed + min(odds, 1 - odds)

    def misses_too_often(self, odds: float) -> bool:
        """Whether that is too many, whatever is assumed of the condition."""
        return self.missed_with(odds) > _MOST_MISSED

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Make one question of all speculations, and one answer to look them up."""
        trace = compilation.trace
        check_index_bounds(tx, trace)
        # A draw that only a predicate needs must happen even if both arms turn out to be the same.
        # A predicate that was taken back has another one in its place.
        alive = set(tx.output.graph.nodes) if self.drawn else set()
        drawn = [(value, value.as_proxy().node) for value in self.drawn]
        trace.kept += [value for value, node in drawn if node in alive and not node.users]
        self.drawn.clear()
        if not trace.speculations or trace.questions:
            return
        wrongs = [wrong for _, wrong in trace.speculations]
        if lost := [s.site for s, w in trace.speculations if _node(w).graph is not tx.output.graph]:
            raise SiteRefused(Refused("inside-function"), *dict.fromkeys(lost))
        home = _device(wrongs[0])
        if len(wrongs) <= _MOST_READ and all(_device(w).type == "cpu" for w in wrongs):
            asked = [self.conditions.get(_node(wrong), (wrong, False)) for wrong in wrongs]
            trace.questions = [value for value, _ in asked]
            self.outputs = CheckOutputs(tuple(right for _, right in asked))
            negated = (w for w, (_, right) in zip(wrongs, asked, strict=True) if right)
            _drop_unused(tx, map(_node, negated))
            return
        moved = [w if _device(w) == home else method(tx, "to", w, home) for w in wrongs]
        if len(moved) == 1:
            trace.questions, self.outputs = [*moved], CheckOutputs((False,))
            return
        stack = tx.output.create_proxy(
            "call_function", torch.stack, ([w.as_proxy() for w in moved],), {}
        )
        which = cast(TensorVariable, wrap_fx_proxy(tx, stack))
        trace.questions = [which, call(tx, "any", which)]


def give_checks(stock: Callable[..., None]) -> Callable[..., None]:
    """`validate_subgraph_output_types`, where the results of a subgraph are known.

    Dynamo has the variable of a result stand for the operator's result from there on.
    """

    def validate(output: Any) -> None:
        if (compilation := current()) is not None:
            trace, tracer = compilation.trace, _tracer()
            checks, blocks = trace.known(Checks), trace.known(CheckpointedSites)
            if blocks is not None:
                blocks.check(tracer, trace)
            if checks is not None and checks.inner and isinstance(output, list):
                inner = (check for check in checks.inner if _node(check).graph is tracer.graph)
                output.extend(inner)
        stock(output)

    return validate


def _tracer() -> SubgraphTracer:
    return InstructionTranslator.current_tx().output.current_tracer


def is_left_to_chance(tx: InstructionTranslatorBase, trace: Trace, truth: TensorVariable) -> bool:
    """Whether random numbers decide a condition, so that its check would fail too often.

    Args:
        tx: translator of the frame that asks.
        trace: the attempt that is running.
        truth: the condition, a 0-dim bool tensor.
    """
    odds = chance_of(tx, trace, truth)
    return odds is not None and trace.of(Checks).misses_too_often(odds)


def _node(value: TensorVariable) -> Node:
    return value.as_proxy().node


def _device(value: TensorVariable) -> torch.device:
    return cast(torch.device, _node(value).meta["example_value"].device)


def _drop_unused(tx: InstructionTranslatorBase, nodes: Iterable[Node]) -> None:
    """Take negations of ours out of the graph in whose place the condition is asked."""
    for node in dict.fromkeys(nodes):
        if not node.users:
            tx.output.remove_node(node)
