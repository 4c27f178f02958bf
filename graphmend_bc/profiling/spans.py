"""The calls that a profile kept one by one: as a chrome trace, and as places in time."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: What torch's profiler calls the operator that reads one value from a tensor.
HOST_READ = "aten::_local_scalar_dense"
#: What CUDA and HIP call the functions that wait for the device.
SYNCHRONISATIONS = frozenset(
    f"{runtime}{function}"
    for runtime in ("cuda", "hip")
    for function in ("DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "Memcpy")
)
#: The categories of what the host asks of a device.
RUNTIMES = frozenset({"cuda_runtime", "cuda_driver", "hip_runtime"})


@dataclass(frozen=True, slots=True)
class Span:
    """One measured call.

    Attributes:
        start_ns: nanoseconds since the Unix epoch.
        duration_ns: nanoseconds.
        thread: native id of its thread.
        record: index of what was called, as in the profile's records.
    """

    start_ns: int
    duration_ns: int
    thread: int
    record: int


@dataclass(frozen=True, slots=True)
class Found:
    """What torch's profiler saw inside compiled regions.

    Attributes:
        host_reads, synchronisations: how many, by the record of the innermost span around them.
        kernels: device kernels that were launched there.
    """

    host_reads: Counter[int]
    synchronisations: Counter[int]
    kernels: int


def spans_of(calls: bytes, epoch_ns: int) -> list[Span]:
    """The calls as the extension kept them.

    Args:
        calls: its 'calls', four 64-bit integers each.
        epoch_ns: Unix time at the zero of `time.perf_counter_ns()`.

    Returns:
        The spans, in the order in which they ended.
    """
    numbers = memoryview(calls).cast("q")
    fours = zip(numbers[0::4], numbers[1::4], numbers[2::4], numbers[3::4], strict=True)
    return [Span(epoch_ns + start, *rest) for start, *rest in fours]


def chrome_trace(
    spans: Iterable[Span],
    name_of: Callable[[int], tuple[str, str, dict[str, Any]]],
    torch_trace: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """A trace for chrome://tracing and Perfetto.

    Args:
        spans: the measured calls.
        name_of: gives name, category and arguments of a record.
        torch_trace: what torch's profiler exported; its events are kept and ours added.

    Returns:
        The trace, to be written as JSON.
    """
    trace = dict(torch_trace or {"displayTimeUnit": "ms", "baseTimeNanoseconds": 0})
    base = int(trace.get("baseTimeNanoseconds", 0))
    events = list(trace.get("traceEvents", ()))
    for span in spans:
        name, category, details = name_of(span.record)
        events.append(
            {
                "ph": "X",
                "name": name,
                "cat": category,
                "pid": os.getpid(),
                "tid": span.thread,
                "ts": (span.start_ns - base) / 1000,
                "dur": span.duration_ns / 1000,
                "args": details,
            }
        )
    return trace | {"traceEvents": events}


def found_in(torch_trace: Mapping[str, Any], spans: Sequence[Span]) -> Found:
    """Look for what waits for the device, and for what a device did.

    Args:
        torch_trace: what torch's profiler exported.
        spans: the measured calls.

    Returns:
        What happened inside of spans.
    """
    base = int(torch_trace.get("baseTimeNanoseconds", 0))
    reads: list[tuple[int, int]] = []
    waits: list[tuple[int, int]] = []
    launches: dict[Any, tuple[int, int]] = {}
    kernels: list[Any] = []
    for event in torch_trace.get("traceEvents", ()):
        category, name = event.get("cat"), event.get("name", "")
        correlation = event.get("args", {}).get("correlation")
        if category == "kernel":
            kernels.append(correlation)
        elif category == "cpu_op" and name == HOST_READ:
            reads.append(_place(event, base))
        elif category in RUNTIMES and name in SYNCHRONISATIONS:
            waits.append(_place(event, base))
        elif category in RUNTIMES:
            launches[correlation] = _place(event, base)
    launched = [launches[kernel] for kernel in kernels if kernel in launches]
    return Found(
        host_reads=_by_record(reads, spans),
        synchronisations=_by_record(waits, spans),
        kernels=sum(_by_record(launched, spans).values()),
    )


def _place(event: Mapping[str, Any], base: int) -> tuple[int, int]:
    """The thread and the time, in nanoseconds since the epoch, at which an event began."""
    return int(event["tid"]), base + round(float(event["ts"]) * 1000)


def _by_record(places: Iterable[tuple[int, int]], spans: Sequence[Span]) -> Counter[int]:
    """Count places in time by the record of the innermost span around them."""
    times: dict[int, list[int]] = defaultdict(list)
    for thread, time in places:
        times[thread].append(time)
    counts: Counter[int] = Counter()
    for thread, wanted in times.items():
        own = (span for span in spans if span.thread == thread)
        ordered = sorted(own, key=lambda span: (span.start_ns, -span.duration_ns))
        around: list[Span] = []
        following = 0
        for time in sorted(wanted):
            while following < len(ordered) and ordered[following].start_ns <= time:
                around.append(ordered[following])
                following += 1
            # A span that has ended lies above those that go on only if it is nested in them.
            around = [span for span in around if span.start_ns + span.duration_ns > time]
            if around:
                counts[around[-1].record] += 1
    return counts
