"""What a device was made to do: launches, copies, waits, time that kernels run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphmend_bc.profiling.spans import RUNTIMES, SYNCHRONISATIONS

_LAUNCHES = tuple(
    f"{prefix}{kind}"
    for prefix in ("cuda", "cu", "hip")
    for kind in ("LaunchKernel", "LaunchCooperativeKernel", "ModuleLaunchKernel", "ExtLaunch")
)
_GRAPH_LAUNCHES = ("cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch")


@dataclass(frozen=True, slots=True)
class DeviceCounts:
    """Of a trace.

    Attributes:
        launches: kernels that the host launched one by one.
        graph_launches: CUDA graphs that it launched.
        kernels: kernels that ran, those in CUDA graphs included.
        to_host, to_device, on_device: copies by direction.
        waits: how often the host waited for the device.
        busy_us: microseconds in which kernels and copies ran, added up.
    """

    launches: int = 0
    graph_launches: int = 0
    kernels: int = 0
    to_host: int = 0
    to_device: int = 0
    on_device: int = 0
    waits: int = 0
    busy_us: float = 0


def device_counts(events: Iterable[Mapping[str, Any]]) -> DeviceCounts:
    """Sum up a trace.

    Args:
        events: as torch's profiler exports them (the Trace Event Format), with "cat", "name" and
            "dur" in microseconds, and "ts". The profiler waits for the device when it stops; that
            is not counted.

    Example:
        >>> device_counts([{"cat": "cuda_runtime", "name": "cudaGraphLaunch"}] * 6).graph_launches
        6
    """
    found: Counter[str] = Counter()
    busy, last = 0.0, ""
    for event in sorted(events, key=lambda event: float(event.get("ts", 0.0))):
        category, name = event.get("cat"), str(event.get("name", ""))
        if category in RUNTIMES:
            last = name
            found["launches"] += name.startswith(_LAUNCHES)
            found["graph_launches"] += name.startswith(_GRAPH_LAUNCHES)
            found["waits"] += name in SYNCHRONISATIONS
        elif category in ("kernel", "gpu_memcpy", "gpu_memset"):
            busy += float(event.get("dur", 0.0))
            found["kernels"] += category == "kernel"
            found["to_host"] += "DtoH" in name
            found["to_device"] += "HtoD" in name
            found["on_device"] += "DtoD" in name
    found["waits"] -= last == "cudaDeviceSynchronize"
    return DeviceCounts(**found, busy_us=busy)
