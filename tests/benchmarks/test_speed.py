"""The speed benchmark: which arms and measures it takes, and what one arm gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import speed
import torch

import graphmend_bc as gm


class Fake:
    """An arm that compiles nothing; stock fails in training."""

    def __init__(self, kind: Any, name: str, caches: str) -> None:
        self.name = name

    def ask(self, method: str, *args: Any) -> Any:
        if method == "first_call":
            if self.name == "stock" and args[1]:
                raise RuntimeError("cannot compile")
            return {"first call": 2.0, "graphs": 1}
        if method == "profile":
            return {"peak": 8, "runs": 1}
        return {"results": [], "error": 0.0, "calls": 0.01, "trace": 1.0, "misses": [0.1]}[method]

    def close(self) -> None:
        return


def test_what_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(speed, "Worker", Fake)
    known = speed.programs(speed.CPU)
    names = ("Python value", "nothing to mend")
    bench = speed.Bench(tmp_path, rounds=3)
    bench.run({name: known[name] for name in names})
    found = Counter((s.subject, s.measure, s.arm) for s in bench.samples)
    assert found["Python value", "call", "eager"] == found["Python value", "call", "twin"] == 3
    assert found["Python value", "trace", "mended"] == speed.TRACES
    assert found["Python value", "miss", "mended"] == 1
    assert found["Python value", "second process", "options"] == 1
    assert found["Python value", "training: failed", "stock"] == 1
    assert found["Python value", "training: call", "stock"] == 0
    assert found["Python value", "training: second process", "mended"] == 1
    assert {arm for name, _, arm in found if name == "nothing to mend"} == {*speed.ARMS} - {"twin"}


@pytest.mark.slow
def test_an_arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
    threads, setting = torch.get_num_threads(), torch._inductor.config.compile_threads
    with gm.config.patch(disk_cache=True, cache_dir=str(tmp_path)):
        try:
            arm = speed.Arm("mended", str(tmp_path))
            assert arm.first_call("clamp", False)["graphs"] == 1
            assert arm.error(arm.results()) == 0
            assert arm.calls(2) > 0
            assert arm.profile()["runs"] == 1
            assert arm.trace(False) > 0
        finally:
            gm.disable()
            torch.set_num_threads(threads)
            torch._inductor.config.compile_threads = setting
