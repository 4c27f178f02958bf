"""The caches of the compilers: the same program gives the same graph in every process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import graphmend_bc as gm
from tests.processes import ROOT, python

PROGRAM = """
import json, sys
import torch, torch._inductor.config
from torch._dynamo.utils import counters
import graphmend_bc as gm

torch._inductor.config.fx_graph_cache = True
torch._functorch.config.enable_autograd_cache = True

def f(x):
    y = x * 3
    if torch.isinf(y).any():
        y = torch.clamp(y, max=1e4)
    if y.sum() < 0:
        return "negative", y
    print("largest", y.max())
    return y + 1

handle = gm.enable()
compiled = torch.compile(f, fullgraph=True)
found = [str(compiled(torch.tensor(x))) for x in ([1.0, 2.0], [-1.0, -2.0], [1.0, float("inf")])]
counts = counters["aot_autograd"] + counters["inductor"]
print(json.dumps([found, counts["autograd_cache_hit"] + counts["fxgraph_cache_hit"]]))
"""


SIZES = """
import json
import torch, torch._inductor.config
from torch._dynamo.utils import counters
import graphmend_bc as gm

torch._inductor.config.fx_graph_cache = True
torch._functorch.config.enable_autograd_cache = True

def f(x):
    first, last = x.min().int(), x.max().int()
    return torch.arange(first, last) + 1

handle = gm.enable()
compiled = torch.compile(f, fullgraph=True)
found = [str(compiled(torch.tensor([1.0, last]))) for last in (3.0, 4.0, 5.0, 3.0)]
counts = counters["aot_autograd"]
print(json.dumps([found, counts["autograd_cache_hit"] - counts["autograd_cache_bypass"]]))
"""


def _run(script: Path, cache: Path) -> tuple[list[str], int]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "GRAPHMEND_BC_DISK_CACHE": "0",
    }
    ran = python(str(script), env=environment, alone=True)
    assert ran.returncode == 0, ran.stderr
    found, hits = json.loads(ran.stdout.splitlines()[-1])
    return found, hits


@pytest.mark.slow
def test_second_process_finds_the_first_ones_graph(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    first, second = (_run(script, tmp_path / "cache") for _ in range(2))
    expected = [
        "tensor([4., 7.])",
        "('negative', tensor([-3., -6.]))",
        "tensor([4.0000e+00, 1.0001e+04])",
    ]
    assert first[0] == second[0] == expected
    assert second[1] > first[1]


@pytest.mark.slow
def test_second_process_finds_a_graph_whose_sizes_are_computed_before_it(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(SIZES)
    first, second = (_run(script, tmp_path / "cache") for _ in range(2))
    expected = [str(torch.arange(1, last) + 1) for last in (3, 4, 5, 3)]
    assert first == (expected, 0)
    assert second[0] == expected
    assert second[1] > 0


def test_same_program_gives_the_same_bytes() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        return x

    def rewritten() -> tuple[bytes, bytes]:
        with gm.enabled(cache=False):
            torch._dynamo.reset()
            torch.compile(f, backend="eager")(torch.ones(3))
        code = gm.rewrite(f).__code__
        return code.co_code, code.co_linetable

    assert rewritten() == rewritten()
