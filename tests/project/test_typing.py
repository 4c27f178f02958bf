"""Programs that use the public names pass a type checker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import ROOT, python

PROGRAM = """\
import graphmend_bc as gm
gm.attach("package.module:Net.forward", backend="eager").remove()
with gm.enabled(), gm.config.patch(where_op_limit=3), gm.profile() as prof:
    print(gm.explain(len)([]).mends, prof.table(), gm.report().to_json(), gm.is_enabled())
gm.register_rule(gm.Rule("mine", "defer", 4, lambda met: None)).remove()
gm.register(gm.Extension("mine")).remove()
gm.enable(cache=False).remove()
gm.rewrite(gm.leave_alone(print, reason="it prints"))
gm.config.rules_off = ("cond",)
gm.reset()
"""


@pytest.mark.slow
def test_mypy_has_nothing_to_say(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "program.py").write_text(PROGRAM)
    given = {"MYPYPATH": str(ROOT), "MYPY_CACHE_DIR": str(tmp_path)}
    options = ("--strict", "--follow-imports=silent")  # what is said of the program alone
    done = python("-m", "mypy", *options, "program.py", cwd=tmp_path, env=given)
    assert (done.returncode, done.stdout) == (0, "Success: no issues found in 1 source file\n")
