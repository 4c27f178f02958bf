"""`torch.compiler.precompile` keeps what `make_fx` has seen: mending has no part in it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.processes import python

PROGRAM = """
import sys
import torch
import graphmend_bc as gm

def f(x):
    return x * 2 + 1

def branches(x):
    return x * 2 if x.sum() > 0 else x

if sys.argv[1] == "mended":
    gm.enable(cache=False)
precompile, x = torch.compiler.precompile, torch.ones(4)
paths = sys.argv[2] + "/f.py", sys.argv[2] + "/f.cache"

def kept(function):
    if not hasattr(precompile, "capture"):
        return precompile(function, x, backend="eager")
    with precompile.capture(
        function, artifact_path=paths[0], cache_path=paths[1], backend="eager"
    ) as captured:
        captured(x)
    return paths

print([precompile.load(*kept(f))(each).tolist() for each in (x, -x)])
try:
    kept(branches)
except Exception as error:
    print(type(error).__name__, error)
print(gm.report().mends)
"""


@pytest.mark.skipif(
    not hasattr(torch.compiler, "precompile"), reason="torch.compiler.precompile came with 2.14"
)
def test_precompile_is_as_in_stock(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    said = []
    for arm in ("stock", "mended"):
        env = {"PYTHONPATH": str(Path(__file__).parents[2])}
        done = python(str(tmp_path / "program.py"), arm, str(tmp_path), env=env)
        assert not done.returncode, done.stderr
        said.append(done.stdout)
    assert said[0] == said[1]
    assert said[0].startswith("[[3.0, 3.0, 3.0, 3.0], [-1.0, -1.0, -1.0, -1.0]]\nRuntimeError ")
    assert said[0].endswith("\n[]\n")
