"""torch's own tools show what was mended: its structured trace, its logs, its debugger."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests import processes

PROGRAM = """
import torch
import graphmend_bc as gm

gm.enable(cache=False)

def f(x):
    print("sum", x.sum())
    if x.sum() > 0:
        x = x * 2
    return x + 1

torch.compile(f, backend="eager")(torch.ones(2))
"""


def ran(tmp_path: Path, **env: str) -> str:
    """What a program writes to stderr."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(processes.ROOT), os.environ.get("PYTHONPATH", "")])
    done = processes.python(str(program), cwd=tmp_path, env={**env, "PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (0, "sum tensor(2.)\n"), done.stderr
    return done.stderr


@pytest.mark.slow
def test_the_structured_trace_has_an_artifact_for_each_mend(tmp_path: Path) -> None:
    ran(tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    (log,) = (tmp_path / "trace").iterdir()
    found: dict[str, str] = {}
    name = ""
    for line in log.read_text().splitlines():
        if line.startswith("\t"):
            found[name] = found.get(name, "") + line
            continue
        record = json.loads(line[line.index("{") :])
        is_ours = str(record.get("artifact", {}).get("name")).startswith("graphmend_bc_")
        name = record["artifact"]["name"] if is_ours else ""
        if is_ours:  # tlparse puts it where the frame is, and formats it
            assert (record["frame_id"], record["frame_compile_id"]) == (0, 0)
            assert record["artifact"]["encoding"] == "json"
    found.pop("", None)
    mends = {name: json.loads(payload) for name, payload in found.items()}
    assert {name: (mend["rule"], mend["site"]["lineno"]) for name, mend in mends.items()} == {
        "graphmend_bc_defer_program.py_8": ("defer", 8),
        "graphmend_bc_where_program.py_9": ("where", 9),
    }
    assert mends["graphmend_bc_where_program.py_9"]["gb_id"] == "GB0170"


@pytest.mark.slow
def test_the_log_of_bytecode_shows_mended_code(tmp_path: Path) -> None:
    log = ran(tmp_path, TORCH_LOGS="bytecode")
    lines = [line.partition("[__bytecode] ")[2] for line in log.splitlines()]
    place = f"{tmp_path / 'program.py'}"
    mended = lines.index(f"MENDED BY graphmend_bc f {place} line 7")
    assert lines[mended + 1 : mended + 3] == [f"defer {place}:8 in f", f"where {place}:9 in f"]
    rewritten = lines.index(f"REWRITTEN BY graphmend_bc f {place} line 7")
    modified = next(i for i, line in enumerate(lines) if line.startswith("MODIFIED BYTECODE f"))
    assert mended < rewritten < modified
    assert any("Branch(site=" in line for line in lines[rewritten:modified])


@pytest.mark.slow
def test_without_these_logs_nothing_is_shown(tmp_path: Path) -> None:
    assert "graphmend_bc" not in ran(tmp_path)


def test_torchs_debugger_steps_through_a_mended_frame() -> None:
    pytest.importorskip("torch._dynamo.bytecode_debugger")
    out, _ = processes.forked(
        """
import builtins
import torch
from torch._dynamo import bytecode_debugger
import graphmend_bc as gm

gm.enable(cache=False)

def f(x):
    print("sum", x.sum())
    if x.isnan().any():
        raise ValueError("nan")
    return x + 1

compiled = torch.compile(f, backend="eager")
compiled(torch.ones(2))
builtins.input = lambda prompt: "n"
for x in (torch.ones(2), torch.full((2,), float("nan"))):
    try:
        with bytecode_debugger.debug():
            print("result", compiled(x))
    except ValueError as error:
        print("raised", repr(error))
"""
    )
    first, second = out.split("=== Entering Dynamo-generated code: f ===")[1:]
    assert "result tensor([2., 2.])" in first
    assert "__compiled_fn" in first
    assert "Exception raised" not in first
    # The graph is of no use, and the frame's own code runs.
    assert re.search(r"=== Exception raised at instruction \d+: CALL ===", second)
    assert "raised ValueError('nan')" in second
