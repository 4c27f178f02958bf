"""What a trace of torch's profiler says of a device."""

from __future__ import annotations

from dataclasses import replace

import pytest

import graphmend_bc as gm
from graphmend_bc.profiling.costs import as_text
from graphmend_bc.profiling.device import DeviceCounts, device_counts

EVENTS = [
    *[{"cat": "cuda_runtime", "name": name} for name in ("cudaLaunchKernel", "cudaGraphLaunch")],
    {"cat": "cuda_driver", "name": "cuLaunchKernelEx"},
    {"cat": "cuda_runtime", "name": "cudaStreamSynchronize"},
    {"cat": "hip_runtime", "name": "hipLaunchKernel"},
    {"cat": "kernel", "name": "triton_poi_fused_0", "dur": 5.5},
    {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "dur": 1.0},
    {"cat": "gpu_memset", "name": "Memset (Device)", "dur": 0.5},
    {"cat": "cpu_op", "name": "cudaLaunchKernel"},
    {"name": "no category"},
]


def test_a_trace() -> None:
    assert device_counts(EVENTS) == DeviceCounts(
        launches=3, graph_launches=1, kernels=1, to_host=1, waits=1, busy_us=7.0
    )


def test_the_profilers_own_wait_is_not_counted() -> None:
    waits = [
        {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "ts": time} for time in (9, 1)
    ]
    assert device_counts(waits).waits == 1
    assert device_counts(waits[:1]).waits == 0


@pytest.mark.parametrize("trace", [True, False])
def test_in_a_profile(trace: bool) -> None:
    """Without a device there are no launches, and no line tells of them."""
    with gm.profile(trace=trace) as prof:
        pass
    assert prof.costs.device == (DeviceCounts() if trace else None)
    assert "device:" not in prof.table()
    text = as_text(replace(prof.costs, device=device_counts(EVENTS)), 5)
    assert (
        "device: 3 kernels launched, 1 CUDA graph, 1 wait, 1 copy to the host; 7.0 us of work"
        in text.splitlines()
    )
