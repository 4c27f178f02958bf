"""What one call makes a GPU do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from graphmend_bc.profiling.device import device_counts


def counts_of(events: Iterable[Mapping[str, Any]], calls: int) -> dict[str, float]:
    """What one of some calls did, by the names of `DeviceCounts`.

    Args:
        events: as torch's profiler exports them.
        calls: how many calls were traced; the wait at the end of the trace is not counted.

    Example:
        >>> counts_of([{"cat": "cuda_runtime", "name": "cudaGraphLaunch"}] * 6, 3)["graph_launches"]
        2.0
    """
    found = asdict(device_counts(events))
    found["waits"] -= min(found["waits"], 1)
    return {name: count / calls for name, count in found.items()}


def measured_counts(call: Callable[[], object], calls: int, folder: str) -> dict[str, float]:
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
