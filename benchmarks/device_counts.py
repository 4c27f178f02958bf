"""What one call makes a GPU do: launches, copies, waits, time that kernels run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

_LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel", "cudaLaunchCooperativeKernel")
_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """Of one call, on average.

    Attributes:
        launches: kernels that the host launched one by one.
        graph_launches: CUDA graphs that it launched; under `reduce-overhead` the partitions in use.
        kernels: kernels that ran, those in CUDA graphs included.
        to_host, to_device, on_device: copies by direction.
        waits: how often the host waited for the device.
        busy_us: microseconds in which kernels and copies ran, added up.
    """

    launches: float = 0
    graph_launches: float = 0
    kernels: float = 0
    to_host: float = 0
    to_device: float = 0
    on_device: float = 0
    waits: float = 0
    busy_us: float = 0


def counts_of(events: Iterable[Mapping[str, Any]], calls: int) -> DeviceCounts:
    """Sum up a trace.

    Args:
        events: as torch's profiler exports them, with "cat", "name" and "dur" in microseconds.
        calls: how many calls were traced; the wait at the end of the trace is not counted.

    Returns:
        What one of the calls did.

    Example:
        >>> counts_of([{"cat": "cuda_runtime", "name": "cudaGraphLaunch"}] * 6, 3).graph_launches
        2.0
    """
    found: Counter[str] = Counter()
    busy = 0.0
    for event in events:
        category, name = event.get("cat"), str(event.get("name", ""))
        if category in ("cuda_runtime", "cuda_driver"):
            found["launches"] += name.startswith(_LAUNCHES)
            found["graph_launches"] += name.startswith("cudaGraphLaunch")
            found["waits"] += name.startswith(_WAITS)
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            busy += float(event.get("dur", 0.0))
            found["kernels"] += category == "kernel"
            found["to_host"] += "DtoH" in name
            found["to_device"] += "HtoD" in name
            found["on_device"] += "DtoD" in name
    found["waits"] -= min(found["waits"], 1)
    per_call = {name: count / calls for name, count in found.items()}
    return DeviceCounts(**per_call, busy_us=busy / calls)


def measured_counts(call: Callable[[], object], calls: int, folder: str) -> DeviceCounts:
    """Trace some calls on the GPU.

    Args:
        call: made so many times.
        calls: how many.
        folder: where the trace may be written.

    Returns:
        What one of the calls did.
    """
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    path = Path(folder) / "trace.json"
    profiler.export_chrome_trace(str(path))
    return counts_of(json.loads(path.read_text(encoding="utf-8"))["traceEvents"], calls)
