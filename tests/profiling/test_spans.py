"""Reading the trace of a device's profiler, from a trace written by hand."""

from __future__ import annotations

from typing import Any

from graphmend_bc.profiling.spans import Span, chrome_trace, found_in, spans_of

BASE = 1_700_000_000_000_000_000
#: Generated code (record 0) from 0 to 1000 us with a graph (record 1) from 100 to 400 us within,
#: and an eager frame (record 2) of another thread from 0 to 500 us.
SPANS = [
    Span(BASE + 100_000, 300_000, 7, 1),
    Span(BASE, 1_000_000, 7, 0),
    Span(BASE, 500_000, 8, 2),
]


def event(
    name: str, category: str, at_us: float, thread: int = 7, **args: object
) -> dict[str, Any]:
    return {"name": name, "cat": category, "ts": at_us, "dur": 1, "tid": thread, "args": args}


def trace(*events: dict[str, Any]) -> dict[str, Any]:
    return {"baseTimeNanoseconds": BASE, "traceEvents": list(events)}


def test_waits_and_reads_go_to_the_innermost_span_of_their_thread() -> None:
    found = found_in(
        trace(
            event("cudaStreamSynchronize", "cuda_runtime", 600),
            event("cudaStreamSynchronize", "cuda_runtime", 200),
            event("hipDeviceSynchronize", "cuda_runtime", 700),
            event("cudaStreamSynchronize", "cuda_runtime", 1200),
            event("cudaEventSynchronize", "cuda_runtime", 100, thread=8),
            event("cudaEventSynchronize", "cuda_runtime", 100, thread=9),
            event("aten::_local_scalar_dense", "cpu_op", 401),
            event("aten::item", "cpu_op", 401),
        ),
        SPANS,
    )
    assert dict(found.synchronisations) == {0: 2, 1: 1, 2: 1}
    assert dict(found.host_reads) == {0: 1}


def test_kernels_count_where_they_were_launched() -> None:
    found = found_in(
        trace(
            event("cudaLaunchKernel", "cuda_runtime", 150, correlation=1),
            event("mul_kernel", "kernel", 5000, thread=0, correlation=1),
            event("cudaLaunchKernel", "cuda_runtime", 1500, correlation=2),
            event("outside_kernel", "kernel", 200, thread=0, correlation=2),
            event("of_a_graph_replay", "kernel", 200, thread=0, correlation=3),
        ),
        SPANS,
    )
    assert found.kernels == 1


def test_the_joined_trace_keeps_the_others_events_and_their_clock() -> None:
    theirs = event("aten::mul", "cpu_op", 150)
    joined = chrome_trace(SPANS, lambda record: (f"r{record}", "ours", {}), trace(theirs))
    assert joined["traceEvents"][0] == theirs
    ours = {entry["name"]: entry for entry in joined["traceEvents"][1:]}
    assert (ours["r1"]["ts"], ours["r1"]["dur"], ours["r1"]["tid"]) == (100.0, 300.0, 7)


def test_calls_as_the_extension_keeps_them() -> None:
    numbers = memoryview(bytearray(64)).cast("q")
    for place, number in enumerate((5, 2, 7, 1, 6, 9, 8, 0)):
        numbers[place] = number
    assert spans_of(bytes(numbers), 100) == [Span(105, 2, 7, 1), Span(106, 9, 8, 0)]
    assert spans_of(b"", 100) == []
