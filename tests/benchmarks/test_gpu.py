"""The GPU benchmark: what it counts in a trace, its tables, and a run on the CPU."""

from __future__ import annotations

import json
from pathlib import Path

import gpu
import pytest
from device_counts import counts_of
from gpu_tables import markdown
from measuring import Sample, read_json


def test_what_a_trace_counts() -> None:
    runtime = ["cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "cudaStreamSynchronize"]
    events: list[dict[str, object]] = [
        {"cat": "cuda_runtime", "name": name} for name in runtime * 2
    ]
    events += [
        {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize"},
        {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize"},  # the profiler's own
        {"cat": "kernel", "name": "triton_poi", "dur": 5.0},
        {"cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pageable)", "dur": 1.0},
        {"cat": "cpu_op", "name": "aten::cudaLaunchKernel"},
        {"name": "no category"},
    ]
    found = counts_of(events, 2)
    assert {name: count for name, count in found.items() if count} == {
        "launches": 2,
        "graph_launches": 1,
        "kernels": 0.5,
        "to_host": 0.5,
        "waits": 1,
        "busy_us": 3,
    }
    assert not any(counts_of([], 3).values())


def test_tables_have_what_was_measured() -> None:
    samples = [
        Sample("clamp", f"default: {measure}", arm, value)
        for arm in ("stock", "mended")
        for measure, value in [
            ("call", 1e-3),
            ("eager beside", 2e-3),
            ("launches", 7),
            ("waits", 0),
        ]
    ]
    samples += [Sample("clamp", "default: failed", "twin", 1)]
    text = markdown({"gpu": "a GPU"}, samples, ["early return"])
    assert "| clamp | 2000 | 2.00 [2.00, 2.00] | 2.00 [2.00, 2.00] | an error |" in text
    assert "7 / 7 / -" in text
    assert text.endswith("No time was left for: early return.\n")


@pytest.mark.slow
def test_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main(["--dry-run", "--only", "early return", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "gpu.json").read_text())
    values = {(s["arm"], s["measure"]): s["value"] for s in found["samples"]}
    assert values["stock", "default: graphs"] == 2
    assert values["mended", "reduce-overhead: graphs"] == 1
    assert values["mended", "default: differs"] == values["eager", "default: differs"] == 0
    assert "| early return |" in (tmp_path / "gpu.md").read_text()
    assert "early return" in capsys.readouterr().out


def test_without_a_gpu_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert gpu.main([]) == 2
    assert "sees no GPU" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["gpu", "gpu_turns"])
def test_committed_tables_are_those_of_the_committed_results(name: str) -> None:
    results = Path(__file__).parents[2] / "docs" / "results"
    assert markdown(*read_json(results / f"{name}.json")) == (results / f"{name}.md").read_text()
