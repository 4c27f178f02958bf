"""The demo's models compile whole once mended, and keep every bit and every log record."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import graphmend_bc as gm

pytest.importorskip("transformers")

from demo import run, same
from models import MODELS, Case, build

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def assert_mended(case: Case, breaks: str) -> None:
    """The model is one graph after mending, and its two runs equal eager's in all that shows."""
    with torch.no_grad():
        explanation = gm.explain(case.model)(**case.inputs)
    assert explanation.before.graph_count > 1
    after = explanation.after
    assert (after.graph_count, after.graph_break_count, after.skipped_frames) == (1, 0, 0)
    assert " ".join(sorted(mend.strategy for mend in explanation.mends)) == breaks

    eager, eager_records = run(case.model, case.inputs)
    with gm.enabled():
        whole = torch.compile(case.model, backend="eager", fullgraph=True)
        mended, mended_records = run(whole, case.inputs)
    assert len(eager_records) == 1
    assert mended_records == eager_records
    assert len(mended) == len(eager)
    assert all(map(same, mended, eager))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mends"),
    [
        ("T5", "defer"),
        ("BART", "defer where"),
        ("BioGPT", "defer"),
        ("Blenderbot", "defer"),
        ("Pegasus", "defer"),
    ],
)
def test_model_compiles_whole(name: str, mends: str) -> None:
    assert_mended(build(name), mends)


@pytest.mark.slow
def test_clamp_of_bart_is_taken_when_half_precision_overflows() -> None:
    case = build("BART")
    norm = case.model.get_encoder().layers[0].final_layer_norm
    with torch.no_grad():
        norm.bias[3] = float("inf")
    assert_mended(case, "defer where")
    clamped = norm.register_forward_hook(lambda *call: seen.append(call[2].isinf().any().item()))
    seen: list[bool] = []
    outputs, _ = run(case.model, case.inputs)
    clamped.remove()
    assert seen == [True, True]
    assert all(output.isfinite().all() for output in outputs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "prefix",
    [
        pytest.param([], marks=pytest.mark.nightly, id="stock"),
        pytest.param(["-m", "graphmend_bc", "run"], id="mended"),
    ],
)
def test_script_finds_every_model_equal_to_eager(prefix: list[str]) -> None:
    command = [sys.executable, *prefix, str(BENCHMARKS / "demo.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        f"OK   {name}" for name in MODELS
    ]


@pytest.mark.slow
def test_script_knows_nothing_of_this_library() -> None:
    loaded = "import demo, sys; sys.exit('graphmend_bc' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", loaded], cwd=BENCHMARKS, timeout=600).returncode == 0
    )


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        (torch.ones(2), torch.ones(2), True),
        (torch.tensor(0.0), torch.tensor(-0.0), False),
        (torch.tensor(float("nan")), torch.tensor(float("nan")), True),
        (torch.ones(2), torch.ones(2, 1), False),
        (torch.ones(2), torch.ones(2, dtype=torch.half), False),
        (torch.ones(2), torch.nn.Parameter(torch.ones(2)), False),
        (1, 1, True),
        (1, torch.tensor(1), False),
    ],
)
def test_same_means_every_bit(a: object, b: object, equal: bool) -> None:
    assert same(a, b) == equal
