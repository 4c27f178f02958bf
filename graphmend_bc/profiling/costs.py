"""What a profile found: the price of each graph break, of graphs and of compilations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from graphmend_bc.dynamo.graph.cuda_graph_counts import CudaGraphCounts
from graphmend_bc.profiling.device import DeviceCounts
from graphmend_bc.reporting.counts import many, verb
from graphmend_bc.reporting.references import references
from graphmend_bc.reporting.table import Table


@dataclass(frozen=True, slots=True)
class FrameCost:
    """A function that ran eagerly inside a compiled region.

    Attributes:
        function: its qualified name.
        filename, lineno: where its code begins.
        calls: how often it was called.
        own_ns: nanoseconds in it, outside of the other frames that are listed.
        total_ns: nanoseconds from its call to its return.
    """

    function: str
    filename: str
    lineno: int
    calls: int
    own_ns: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class BreakCost:
    """What ran between two graphs, or in place of one, because of one break.

    Attributes:
        function: qualified name of the user's function in which the break is.
        filename, lineno: where; 0 if the line is not known.
        reason: Dynamo's words for it, "" if it was compiled before `torch._dynamo.reset()`.
        decline: our reason code if we declined to mend it, else "".
        calls: how often the program came by.
        own_ns: nanoseconds between the graphs in no frame of their own: builtins such as `print`
            or `Tensor.item`, and Dynamo's packing and unpacking.
        frames: the functions that ran there, the dearest first.
        host_reads: values that were read from tensors there, each of which waits for the device
            if there is one; None if torch's profiler did not run.
        synchronisations: other waits for the device there; None likewise.
    """

    function: str
    filename: str
    lineno: int
    reason: str
    decline: str
    calls: int
    own_ns: int
    frames: tuple[FrameCost, ...] = ()
    host_reads: int | None = None
    synchronisations: int | None = None

    @property
    def total_ns(self) -> int:
        """Nanoseconds that the break cost, graphs beneath it left out."""
        return self.own_ns + sum(frame.own_ns for frame in self.frames)


@dataclass(frozen=True, slots=True)
class GraphCost:
    """The graphs compiled from one frame, or the compilations that began in it.

    Attributes:
        function: qualified name of the user's function; "" for compilations outside of any that
            is compiled already.
        filename, lineno: where its code, or the resumed part of it, begins.
        calls: how often a graph was launched, or Dynamo was asked to compile something.
        total_ns: nanoseconds on the host; a device may still be at work afterwards.
    """

    function: str
    filename: str
    lineno: int
    calls: int
    total_ns: int


@dataclass(frozen=True, slots=True)
class FailedCheckCost:
    """A speculation that was wrong, so that the original code ran after the graph.

    Attributes:
        function: qualified name of the user's function that asks.
        filename, lineno: where.
        calls: how often a graph that assumes an answer came by.
        failed: in how many of them the check failed.
        raised: in how many calls the graph raised.
        recompiled: how often the frame was compiled anew because of that.
        rerun_ns: nanoseconds in the original code.
        graph_ns: nanoseconds in the graph before, for nothing.
        recompile_ns: nanoseconds in those compilations.
    """

    function: str
    filename: str
    lineno: int
    calls: int
    failed: int
    raised: int
    recompiled: int
    rerun_ns: int
    graph_ns: int
    recompile_ns: int

    @property
    def total_ns(self) -> int:
        """Nanoseconds that the speculation cost by being wrong."""
        return self.rerun_ns + self.graph_ns + self.recompile_ns


@dataclass(frozen=True, slots=True)
class Costs:
    """All that a profile found.

    Attributes:
        wall_ns: nanoseconds from the beginning of the profile to its end.
        breaks: graph breaks, the dearest first.
        rest_ns: nanoseconds in generated code that has no break: unpacking, side effects, returns.
        graphs: graph launches, the dearest first.
        compilations: compilations that ran meanwhile, the dearest first.
        kernels: device kernels that ran inside compiled regions; None if torch's profiler did not
            run.
        measured_calls: how many calls were measured.
        overhead_ns: what measuring them took, estimated from what one takes.
        dropped_calls: calls that are in the sums but not in the trace.
        failed_checks: speculations that were wrong, the dearest first.
        cuda_graphs: what Inductor recorded meanwhile, in the thread that profiled.
        device: what the device was made to do meanwhile, outside of compiled regions too; None if
            torch's profiler did not run.
    """

    wall_ns: int
    breaks: tuple[BreakCost, ...]
    rest_ns: int
    graphs: tuple[GraphCost, ...]
    compilations: tuple[GraphCost, ...]
    kernels: int | None
    measured_calls: int
    overhead_ns: int
    dropped_calls: int
    failed_checks: tuple[FailedCheckCost, ...] = ()
    cuda_graphs: CudaGraphCounts = field(default_factory=CudaGraphCounts)
    device: DeviceCounts | None = None


def as_text(costs: Costs, limit: int) -> str:
    """The costs as a table for people.

    Args:
        costs: what was found.
        limit: how many breaks, and frames beneath each, are listed.

    Returns:
        Lines of text, the dearest break first.
    """
    lines = list(_failed_check_lines(costs.failed_checks, limit))
    if costs.breaks or not lines:
        lines += _break_lines(costs.breaks, limit)
    launches = sum(graph.calls for graph in costs.graphs)
    asked = sum(found.calls for found in costs.compilations)
    lines += [
        f"graph launches: {launches} of {many(len(costs.graphs), 'frame')}, "
        f"{_time(sum(graph.total_ns for graph in costs.graphs))} on the host"
        + ("" if costs.kernels is None else f", {many(costs.kernels, 'device kernel')}"),
        f"Dynamo was asked to compile: {many(asked, 'time')}, "
        f"{_time(sum(found.total_ns for found in costs.compilations))}",
        *_device_lines(costs.device, costs.cuda_graphs),
        f"other generated code: {_time(costs.rest_ns)}",
        f"profiled: {_time(costs.wall_ns)}; measuring {many(costs.measured_calls, 'call')} took "
        f"about {_time(costs.overhead_ns)} of it ({_share(costs.overhead_ns, costs.wall_ns)})",
    ]
    if costs.dropped_calls:
        dropped = costs.dropped_calls
        counted = f"{many(dropped, 'call')} {verb(dropped, 'is', 'are')} counted above but"
        lines.append(f"{counted} not in the trace")
    return "\n".join(lines)


def _device_lines(device: DeviceCounts | None, graphs: CudaGraphCounts) -> Iterator[str]:
    """What a program without a device has no line for."""
    if device is not None and (device.launches or device.graph_launches):
        yield (
            f"device: {many(device.launches, 'kernel')} launched, "
            f"{many(device.graph_launches, 'CUDA graph')}, {many(device.waits, 'wait')}, "
            f"{many(device.to_host, 'copy', 'copies')} to the host; "
            f"{_time(round(1000 * device.busy_us))} of work"
        )
    if graphs != CudaGraphCounts():
        yield (
            f"CUDA graphs recorded: {graphs.recorded}, of them again: {graphs.rerecorded}; graphs "
            f"split into {many(graphs.partitions, 'partition')}, without: {graphs.skipped}"
        )


def _failed_check_lines(failed: Sequence[FailedCheckCost], limit: int) -> Iterator[str]:
    if not failed:
        return
    header = ("cost", "calls", "failed", "raised", "recompiled", "speculation that was wrong")
    rows: list[tuple[str, ...]] = []
    for found in failed[:limit]:
        share = f"{found.failed} ({_share(found.failed, found.calls)})"
        counts = (str(found.calls), share, str(found.raised), str(found.recompiled))
        place = f"{found.filename}:{found.lineno} in {found.function}"
        rows.append((_time(found.total_ns), *counts, place))
        spent = (
            f"  original code {_time(found.rerun_ns)}, graphs that ran for nothing "
            f"{_time(found.graph_ns)}, compilations {_time(found.recompile_ns)}"
        )
        rows.append(("",) * 5 + (spent,))
    yield str(Table(header, rows, right=frozenset(range(5))))
    if len(failed) > limit:
        yield f"and {len(failed) - limit} more"


def _break_lines(breaks: Sequence[BreakCost], limit: int) -> Iterator[str]:
    if not breaks:
        yield "no graph breaks inside the compiled regions that ran"
        return
    header = ("cost", "calls", "per call", "reads", "waits", "graph break")
    rows: list[tuple[str, ...]] = []
    for found in breaks[:limit]:
        place = f"{found.filename}:{found.lineno} in {found.function}"
        why = " ".join(filter(None, (found.reason, found.decline and f"[{found.decline}]")))
        per_call = _time(found.total_ns // max(found.calls, 1))
        waits = (_count(found.host_reads), _count(found.synchronisations))
        rows.append((_time(found.total_ns), str(found.calls), per_call, *waits, place))
        rows += [("",) * 5 + (f"  {why}",)] if why else []
        for frame in found.frames[:limit]:
            name = f"  {frame.function} ({frame.filename}:{frame.lineno})"
            times = f"own {_time(frame.own_ns)}, total {_time(frame.total_ns)}"
            rows.append(("", str(frame.calls), "", "", "", f"{name} {times}"))
    yield str(Table(header, rows, right=frozenset(range(5))))
    yield from references(found.decline for found in breaks[:limit])
    if len(breaks) > limit:
        yield f"and {many(len(breaks) - limit, 'more break')}"


def _time(nanoseconds: int) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if nanoseconds >= size:
            return f"{nanoseconds / size:.2f} {unit}"
    return f"{nanoseconds / 1e3:.1f} us"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):.1f}%"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)
