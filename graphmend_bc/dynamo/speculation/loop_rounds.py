"""A loop that only a tensor ends: it is unrolled, for as many rounds as there are in this call.

Its conditions are computed before the graph, all of them in one guard: another number of rounds has
a compiled version of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import GraphModule, Node

from graphmend_bc import config
from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource
from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.before_graph.guarded_constants import answer_of
from graphmend_bc.dynamo.before_graph.hoist import evaluated
from graphmend_bc.dynamo.before_graph.unused_nodes import drop_unused
from graphmend_bc.dynamo.speculation.growth import check_growth
from graphmend_bc.dynamo.speculation.guarded_truth import draws, slice_of_truths
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

STRATEGY, _RULE = "hoist", "unrolled"

_labels = itertools.count()


@dataclass(frozen=True, eq=False)
class _Latest(Slice):
    """The last of several slices, each of which computes what those before it compute, and more.

    A guard is on it from the first one on. Where computing raises, there is no answer.
    """

    pieces: list[Slice] = field(default_factory=list)

    def arguments(self, scope: dict[str, Any]) -> list[Any]:
        return self.pieces[-1].arguments(scope)

    def fresh(self, scope: dict[str, Any]) -> Any:
        return answer_of(lambda: self.pieces[-1].fresh(scope))


def _last(pieces: list[Slice], *arguments: Any) -> Any:
    return pieces[-1].function(*arguments)


@dataclass(slots=True, eq=False)
class Rounds(Feature):
    """The conditions of a trace's loops.

    Attributes:
        asked: where, with what they are, in the order of the trace.
        conditions: the nodes of the graph that they are.
        nodes: those, and what they are made of.
        latest: computes them all; None before the first.
    """

    order: ClassVar[int] = 57

    asked: list[tuple[Site, bool]] = field(default_factory=list)
    conditions: list[Node] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    latest: _Latest | None = None

    def computing(self, site: Site) -> _Latest:
        """What computes them, named by the first site: no other trace asks the same."""
        if self.latest is None:
            pieces: list[Slice] = []
            label = f"{site.name}:{site.lineno} rounds {next(_labels)}"
            self.latest = _Latest(label, (), partial(_last, pieces), pieces=pieces)
        return self.latest

    def count(self, site: Site) -> int:
        """How often a condition was asked."""
        return sum(known == site for known, _ in self.asked)

    def at_loop_of(self, site: Site) -> tuple[Site, ...]:
        """Where conditions of the same loop were asked: in front of it, and in its rounds."""
        line = site.code, site.lineno
        found = [known for known, _ in self.asked if (known.code, known.lineno) == line]
        return tuple(dict.fromkeys(found))

    def hashes(self) -> dict[Site, int]:
        """What all of them are, by the site of each."""
        return dict.fromkeys((site for site, _ in self.asked), hash(tuple(self.asked)))

    def on_proof(self, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
        """What only the conditions used has run in the guards of the call, and need not again."""
        drop_unused(gm, self.nodes)


def goes_on(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, truth: TensorVariable
) -> bool:
    """The value in this call of a condition that nothing bounds.

    Args:
        tx: translator of the frame that asks.
        compilation: what is being compiled.
        site: where it asks.
        truth: the condition, a 0-dim bool tensor.

    Raises:
        Refused: it cannot be computed from the inputs alone.
        SiteRefused: that is so in a later round, or the loop is in an arm that Python may not take.
    """
    trace = compilation.trace
    if trace.arms:
        raise SiteRefused(
            Refused("arm-does-not-trace", f"It is the loop at {site}."), trace.arms[-1]
        )
    rounds = trace.of(Rounds)
    try:
        value = _truths(tx, compilation, rounds, site, truth)[-1] == "T"
    except Refused as refused:
        unbounded = _unbounded(refused)
        if loop := rounds.at_loop_of(site):
            raise SiteRefused(unbounded, *loop, site) from refused
        raise unbounded from refused
    rounds.asked.append((site, value))
    trace.used[site] = STRATEGY
    return value


def _unbounded(refused: Refused) -> Refused:
    """Why a loop stays as it is, if its conditions are not computed before the graph."""
    if refused.reason.code in ("loop-unbounded", "hoist-varies"):
        return refused
    detail = f"It is not computed before the graph: {refused.detail or refused}"
    return Refused("loop-unbounded", detail)


def _truths(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    rounds: Rounds,
    site: Site,
    truth: TensorVariable,
) -> str:
    """What all conditions so far are, and that of a site, which the compiled version rests on."""
    if STRATEGY not in config.strategies or _RULE in config.rules_off:
        raise Refused("strategy-off", f"The rule {_RULE!r} is off in graphmend_bc.config.")
    if compilation.is_saved:
        raise Refused("hoist-not-input", "What is saved has no guard on the number of rounds.")
    check_growth(tx, compilation.trace, site, rounds.count(site))
    _check_varies(compilation.given_up, site)
    node = truth.as_proxy().node
    nodes = [*rounds.conditions, node]
    latest = rounds.computing(site)
    name = f"{latest.label} {len(nodes)}"
    piece = slice_of_truths(tx, compilation, nodes, _as_text, name)
    if draws(piece):
        raise Refused("decided-by-chance", "A random number decides.")
    value: str = evaluated(tx, piece)
    latest.pieces[:] = [replace(piece, shared=None)]  # no other one is asked for
    install_guard(HoistedSource(latest.label, latest).make_guard(GuardBuilder.CONSTANT_MATCH))
    rounds.conditions = nodes
    rounds.nodes += node, *node.all_input_nodes
    return value


def _check_varies(given_up: Mapping[Site, Refused], site: Site) -> None:
    """Refuse a loop that was given up for its rounds: what resumes it is another function."""
    for known, refused in [*given_up.items()]:
        same = known.filename == site.filename and known.lineno == site.lineno
        if same and refused.reason.code == "hoist-varies":
            raise refused


def _as_text(*truths: torch.Tensor) -> str:
    """What they are; those of one device are read in one transfer."""
    together = len({truth.device for truth in truths}) == 1
    values = torch.stack(truths).tolist() if together else map(bool, truths)
    return "".join("T" if value else "F" for value in values)
