"""How much loops may add to a graph whose rounds are traced one by one."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from graphmend_bc import config
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.trace.compilation import Trace
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site

_MOST_NODES = 1024
"""Nodes that a loop may add."""


def check_growth(tx: InstructionTranslatorBase, trace: Trace, site: Site, occurrence: int) -> None:
    """Bound how often a condition is asked in one trace.

    Args:
        tx: translator of the frame that asks.
        trace: the attempt.
        site: where it asks.
        occurrence: how often it was asked there before.

    Raises:
        Refused: that is too often, or the graph has grown too much.
    """
    if occurrence >= config.speculation_limit:
        reached = many(occurrence, "time")
        raise Refused("loop-unbounded", f"It was reached {reached} in one trace.")
    first = trace.of(Checks).first.setdefault(site, len(tx.output.graph.nodes))
    if occurrence > 1 and (grown := len(tx.output.graph.nodes) - first) > _MOST_NODES:
        detail = f"It was reached {occurrence} times, and the graph has grown by {grown} operators."
        raise Refused("loop-unbounded", detail)
