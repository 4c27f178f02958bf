"""What a profile measured, before it is put into costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any

from graphmend_bc.dynamo.frames.generated_code import BreakReason, user_name
from graphmend_bc.dynamo.graph.cuda_graph_counts import CudaGraphCounts
from graphmend_bc.profiling.spans import Span, spans_of
from graphmend_bc.reporting.report import Report

#: What a record is of.
EAGER, GENERATED, GRAPH, COMPILER = "eager", "generated", "graph", "compilation"


@dataclass(frozen=True, slots=True)
class Record:
    """Sums of one code object under one cause; times in nanoseconds."""

    kind: str
    code: CodeType
    cause: CodeType
    calls: int
    own_ns: int
    total_ns: int

    @property
    def owner(self) -> tuple[str, str, int]:
        """The user's frame that a graph is of, or in which a compilation began: name and place."""
        if self.cause is self.code:  # Dynamo compiles, and no compiled frame is around it
            return "", "", 0
        return user_name(self.cause), self.cause.co_filename, self.cause.co_firstlineno


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was written down when the profile ended.

    Attributes:
        records: sums.
        calls: the calls one by one, as the extension keeps them; there may be a million.
        epoch_ns: Unix time at the zero of their clock.
        dropped: how many calls are missing there.
        wall_ns: how long the profile lasted.
        cost_ns: what measuring one call takes.
        torch_trace: what torch's profiler exported, if it ran.
        cuda_graphs: what Inductor recorded meanwhile.
        reasons: Dynamo's graph breaks.
        before: our mends and declines, and the counts of speculations, when it began.
        report: the same when it ended.
    """

    records: tuple[Record, ...]
    calls: bytes
    epoch_ns: int
    dropped: int
    wall_ns: int
    cost_ns: float
    torch_trace: Mapping[str, Any] | None
    cuda_graphs: CudaGraphCounts
    reasons: tuple[BreakReason, ...]
    before: Report
    report: Report

    @property
    def spans(self) -> list[Span]:
        """The calls one by one; made anew at each request."""
        return spans_of(self.calls, self.epoch_ns)
