"""Records of ours reach the user's handlers only if they are asked for; failures always do."""

from __future__ import annotations

import textwrap

import pytest

from tests.processes import ROOT, python

SEEN = """
import logging, logging.config
class Seen(logging.Handler):
    def __init__(self):
        super().__init__(logging.NOTSET)
        self.names = []
    def emit(self, record):
        if record.name.startswith("graphmend_bc"):
            self.names.append(f"{record.levelname} {record.name}")
seen = Seen()
"""

LOGS = """
for name in ("graphmend_bc.mends", "graphmend_bc.declines", "graphmend_bc"):
    for level in (logging.DEBUG, logging.INFO, logging.WARNING):
        logging.getLogger(name).log(level, "hello")
print(*sorted(set(seen.names)), sep=",")
"""

COMPILES = """
import torch
def f(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1
graphmend_bc.enable()
torch.compile(f, backend="eager")(torch.ones(2))
assert len(graphmend_bc.report().mends) == 1
"""

BASIC = "logging.basicConfig(level=logging.INFO, handlers=[seen])"
DEBUG = "logging.basicConfig(level=logging.DEBUG, handlers=[seen])"
DICT = (
    "logging.config.dictConfig({'version': 1, 'disable_existing_loggers': False, 'root': "
    "{'level': 'INFO'}}); logging.getLogger().addHandler(seen)"
)
DICT_OF_OURS = DICT.replace("'root'", "'loggers': {'graphmend_bc': {'level': 'INFO'}}, 'root'")
DICT_OF_MENDS = DICT.replace(
    "'root'", "'loggers': {'graphmend_bc.mends': {'level': 'INFO'}}, 'root'"
)
ASKED = "logging.getLogger('graphmend_bc').setLevel(logging.INFO)"
IMPORT = "import graphmend_bc"

QUIET = {"WARNING graphmend_bc", "WARNING graphmend_bc.declines", "WARNING graphmend_bc.mends"}
LOUD = QUIET | {name.replace("WARNING", "INFO") for name in QUIET}


def run(*lines: str, **environment: str) -> tuple[set[str], str]:
    """The names that a program prints, and what it writes to stderr."""
    program = "\n".join(textwrap.dedent(line) for line in (SEEN, *lines))
    done = python("-c", program, env={"PYTHONPATH": str(ROOT), **environment})
    assert done.returncode == 0, done.stderr
    return set(filter(None, done.stdout.strip().split(","))), done.stderr


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((BASIC, IMPORT), QUIET),
        ((IMPORT, BASIC), QUIET),
        ((DEBUG, IMPORT), QUIET),
        ((IMPORT, DEBUG), QUIET),
        ((DICT, IMPORT), QUIET),
        ((IMPORT, DICT), QUIET),
        ((IMPORT, DICT_OF_OURS), LOUD),
        ((DICT_OF_OURS, IMPORT), LOUD),
        ((IMPORT, DICT_OF_MENDS), QUIET | {"INFO graphmend_bc.mends"}),
        ((DICT_OF_MENDS, IMPORT), QUIET | {"INFO graphmend_bc.mends"}),
        ((IMPORT, ASKED, BASIC), LOUD),
        ((ASKED, IMPORT, BASIC), LOUD),
        ((ASKED, BASIC, IMPORT, "import importlib; importlib.reload(graphmend_bc)"), LOUD),
        ((ASKED.replace("INFO", "ERROR"), IMPORT, BASIC), set()),
    ],
)
def test_levels_however_logging_is_set_up(lines: tuple[str, ...], expected: set[str]) -> None:
    """The package imports no torch, so these are cheap."""
    assert run(*lines, LOGS)[0] == expected


@pytest.mark.slow
def test_a_mended_program_logs_nothing_that_was_not_asked_for() -> None:
    tell = "print(*sorted(set(seen.names)), sep=',')"
    assert run(BASIC, IMPORT, COMPILES, tell) == (set(), "")
    late = COMPILES.replace("enable()", f"enable()\n{DEBUG}")
    assert run("import torch", IMPORT, late, tell)[0] == set()
    assert run(BASIC, IMPORT, ASKED, COMPILES, tell)[0] == {"INFO graphmend_bc.mends"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "setting", "level"),
    [
        ((IMPORT, "import torch"), "graphmend_bc", 20),
        (("import torch", IMPORT), "+graphmend_bc", 10),
    ],
)
def test_torch_logs_asks_for_them(imports: tuple[str, ...], setting: str, level: int) -> None:
    tell = f"assert graphmend_bc._log.level == {level}, graphmend_bc._log.level"
    asked = {"TORCH_LOGS": setting, "GRAPHMEND_BC_DISK_CACHE": "0"}
    breaks = COMPILES.replace("x = x * 2", "torch._dynamo.graph_break()")  # takes two attempts
    names, stderr = run(BASIC, *imports, breaks, tell, **asked)
    assert names == set()
    assert ("Attempt 1 at <string>:" in stderr) == (level == 10)
    assert ("failed: Call to `torch._dynamo.graph_break()` at <string>:" in stderr) == (level == 10)
    assert "mended speculate" in stderr  # torch's own handler shows it
