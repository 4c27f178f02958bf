"""torch's cache of compiled frames, in processes of their own: what it holds is not mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import python

MODEL = """
def f(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1
"""

PROGRAM = """
import json, logging, sys
import torch
from torch._dynamo.utils import counters
import graphmend_bc as gm
import model

logging.basicConfig(format="%(message)s", stream=sys.stderr)
config = torch._dynamo.config
arm, later = sys.argv[1:]
config.caching_precompile = not later
if arm == "mended":
    gm.enable()
config.caching_precompile |= bool(later)
compiled, x = torch.compile(model.f), torch.ones(4)
with torch.no_grad():
    for given in (x, -x, x / 2):
        assert torch.equal(compiled(given), model.f(given))
saved = torch.compiler.save_cache_artifacts()
found = dict(counters["dynamo_cache"])
during = config.caching_precompile
gm.disable()
print(json.dumps({
    "hits": found.get("dynamo_cache_hit", 0),
    "mends": [mend.strategy for mend in gm.report().mends],
    "saves": saved is not None,
    "on": [during, config.caching_precompile],
}))
"""


def run(folder: Path, arm: str, later: str = "") -> tuple[dict[str, object], str]:
    """What one process found, and what it wrote to stderr."""
    (folder / "model.py").write_text(MODEL)
    (folder / "program.py").write_text(PROGRAM)
    env = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"), "GRAPHMEND_BC_DISK_CACHE": "0"}
    root = str(Path(__file__).parents[2])
    done = python(str(folder / "program.py"), arm, later, env={**env, "PYTHONPATH": root})
    assert not done.returncode, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.slow
def test_what_stock_saved_is_not_taken_for_a_mended_program(tmp_path: Path) -> None:
    """Nor the other way round; the artifacts of a mended run can be saved."""
    stock = {"mends": [], "on": [True, True]}
    mended = {"hits": 0, "mends": ["where"], "saves": True, "on": [False, True]}
    assert run(tmp_path, "mended")[0] == mended
    assert run(tmp_path, "stock")[0] == stock | {"hits": 0, "saves": True}
    found, said = run(tmp_path, "mended")
    assert found == mended
    (line,) = [line for line in said.splitlines() if "caching_precompile" in line]
    assert "is off while graphmend_bc is enabled" in line
    assert run(tmp_path, "stock")[0] == stock | {"hits": 1, "saves": False}


@pytest.mark.slow
def test_a_cache_that_is_switched_on_later(tmp_path: Path) -> None:
    """What is compiled is mended, and no guard is dropped; torch keeps the setting."""
    found, said = run(tmp_path, "mended", later="later")
    assert found["mends"] == ["where"]
    assert found["hits"] == 0
    assert "guard" not in said
    assert said.count("is off while graphmend_bc is enabled") == 1
