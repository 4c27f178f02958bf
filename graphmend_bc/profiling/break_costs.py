"""From what a profile measured to what each graph break costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType

from graphmend_bc.code.resume_names import without_resumption
from graphmend_bc.dynamo.frames.generated_code import line_of_break, user_name
from graphmend_bc.profiling.costs import (
    BreakCost,
    Costs,
    FailedCheckCost,
    FrameCost,
    GraphCost,
)
from graphmend_bc.profiling.device import device_counts
from graphmend_bc.profiling.records import COMPILER, EAGER, GENERATED, GRAPH, Measured, Record
from graphmend_bc.profiling.spans import Found, found_in
from graphmend_bc.reporting.report import Report

_LEFT_ALONE = "Dynamo left the whole frame as it is"


@dataclass(slots=True)
class _Group:
    """The records that have one cause, which is generated code or a frame left as it is."""

    cause: CodeType
    indices: list[int] = field(default_factory=list)


def costs_of(measured: Measured) -> Costs:
    """What each break cost, dearest first, and what else took time."""
    groups: dict[int, _Group] = {}
    for index, record in enumerate(measured.records):
        groups.setdefault(id(record.cause), _Group(record.cause)).indices.append(index)
    trace = measured.torch_trace
    found = None if trace is None else found_in(trace, measured.spans)
    breaks: list[BreakCost] = []
    rest_ns = 0
    for group in groups.values():
        cost = _break_cost(measured, group, found)
        if cost is None:
            rest_ns += sum(measured.records[index].own_ns for index in _between(measured, group))
        else:
            breaks.append(cost)
    measured_calls = sum(record.calls for record in measured.records)
    return Costs(
        wall_ns=measured.wall_ns,
        breaks=tuple(sorted(_merged(breaks), key=lambda cost: -cost.total_ns)),
        rest_ns=rest_ns,
        graphs=_graph_costs(measured.records, GRAPH),
        compilations=_graph_costs(measured.records, COMPILER),
        kernels=None if found is None else found.kernels,
        measured_calls=measured_calls,
        overhead_ns=round(measured_calls * measured.cost_ns),
        dropped_calls=measured.dropped,
        failed_checks=_failed_checks(measured.before, measured.report),
        cuda_graphs=measured.cuda_graphs,
        device=None if trace is None else device_counts(trace.get("traceEvents", ())),
    )


def _failed_checks(before: Report, after: Report) -> tuple[FailedCheckCost, ...]:
    """What speculations came to between two reports."""
    known = {outcome.site: outcome for outcome in before.speculations}
    found = []
    for outcome in after.speculations:
        since = outcome.since(known.get(outcome.site))
        if since.is_costly:
            site = since.site
            found.append(
                FailedCheckCost(
                    function=without_resumption(site.qualname),
                    filename=site.filename,
                    lineno=site.lineno,
                    calls=since.calls,
                    failed=since.failed_checks,
                    raised=since.raised,
                    recompiled=since.recompiled,
                    rerun_ns=since.rerun_ns,
                    graph_ns=since.graph_ns,
                    recompile_ns=since.recompile_ns,
                )
            )
    return tuple(sorted(found, key=lambda cost: -cost.total_ns))


def _between(measured: Measured, group: _Group) -> list[int]:
    """The records of a group that are neither graphs nor compilations."""
    return [i for i in group.indices if measured.records[i].kind in (EAGER, GENERATED)]


def _break_cost(measured: Measured, group: _Group, found: Found | None) -> BreakCost | None:
    """The cost of the break in a piece of generated code; None if there is none in it."""
    indices = _between(measured, group)
    records = [measured.records[index] for index in indices]
    generated = [record for record in records if record.kind == GENERATED]
    eager = [record for record in records if record.kind == EAGER]
    line = line_of_break(group.cause) if generated else group.cause.co_firstlineno
    if line is None:
        return None
    if not records:
        return None
    roots = generated or [record for record in eager if record.code is group.cause]
    reason, decline = _why(measured, group.cause, line, whole_frame=not generated)
    return BreakCost(
        function=user_name(group.cause),
        filename=group.cause.co_filename,
        lineno=line,
        reason=reason,
        decline=decline,
        calls=sum(record.calls for record in roots),
        own_ns=sum(record.own_ns for record in generated),
        frames=tuple(sorted(map(_frame_cost, eager), key=lambda frame: -frame.own_ns)),
        host_reads=None if found is None else sum(found.host_reads[i] for i in indices),
        synchronisations=(
            None if found is None else sum(found.synchronisations[i] for i in indices)
        ),
    )


def _why(measured: Measured, cause: CodeType, line: int, *, whole_frame: bool) -> tuple[str, str]:
    """Dynamo's reason for a break, and our reason code if we declined to mend it."""
    last = max((at for *_, at in cause.co_lines() if at is not None), default=line)
    lines = range(line, (last if whole_frame else line) + 1)
    reason = _LEFT_ALONE if whole_frame else ""
    place = (cause.co_filename, line)
    for known in measured.reasons:
        if known.filename == cause.co_filename and known.lineno in lines:
            reason, place = known.reason, known.inner
            if whole_frame:
                reason = f"{_LEFT_ALONE}: {known.reason}"
    declines = [
        decline.reason
        for decline in measured.report.declines
        if (decline.site.filename, decline.site.lineno) == place
    ]
    return reason, declines[-1] if declines else ""


def _merged(breaks: Iterable[BreakCost]) -> list[BreakCost]:
    """One entry for each place: Dynamo may have compiled a frame for several kinds of input."""
    merged: dict[tuple[str, int, str], BreakCost] = {}
    for cost in breaks:
        place = (cost.filename, cost.lineno, cost.function)
        former = merged.get(place)
        merged[place] = cost if former is None else _sum(former, cost)
    return list(merged.values())


def _sum(one: BreakCost, other: BreakCost) -> BreakCost:
    frames: dict[tuple[str, str, int], FrameCost] = {}
    for frame in (*one.frames, *other.frames):
        key = (frame.function, frame.filename, frame.lineno)
        same = frames.get(key, FrameCost(*key, 0, 0, 0))
        calls, own = same.calls + frame.calls, same.own_ns + frame.own_ns
        frames[key] = FrameCost(*key, calls, own, same.total_ns + frame.total_ns)
    return BreakCost(
        function=one.function,
        filename=one.filename,
        lineno=one.lineno,
        reason=one.reason or other.reason,
        decline=one.decline or other.decline,
        calls=one.calls + other.calls,
        own_ns=one.own_ns + other.own_ns,
        frames=tuple(sorted(frames.values(), key=lambda frame: -frame.own_ns)),
        host_reads=_both(one.host_reads, other.host_reads),
        synchronisations=_both(one.synchronisations, other.synchronisations),
    )


def _both(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _frame_cost(record: Record) -> FrameCost:
    code = record.code
    return FrameCost(
        function=user_name(code),
        filename=code.co_filename,
        lineno=code.co_firstlineno,
        calls=record.calls,
        own_ns=record.own_ns,
        total_ns=record.total_ns,
    )


def _graph_costs(records: Sequence[Record], kind: str) -> tuple[GraphCost, ...]:
    found: dict[tuple[str, str, int], GraphCost] = {}
    for record in records:
        if record.kind == kind:
            key = record.owner
            same = found.get(key, GraphCost(*key, 0, 0))
            total_ns = same.total_ns + record.total_ns
            found[key] = GraphCost(*key, same.calls + record.calls, total_ns)
    return tuple(sorted(found.values(), key=lambda cost: -cost.total_ns))
