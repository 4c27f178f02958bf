"""Programs that tests run in processes of their own.

`python` starts an interpreter, for what shows only when one begins or ends: its options, its exit,
what it imports first. `forked` is for a program that only wants a process in which nothing was
compiled yet: it runs in a fork of a server that has imported torch, which saves the import.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 240
"""Seconds after which a program is ended."""


def python(
    *arguments: str,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    alone: bool = False,
    limit: int = LIMIT,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end.

    Args:
        arguments: of the interpreter.
        cwd: where it runs.
        env: variables that it has besides those of this process.
        alone: True for no variables but `env`.
        limit: seconds after which it is ended.
    """
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env if alone else {**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=limit,
    )


def forked(program: str) -> tuple[str, str]:
    """Run a program in a fork of a process that has imported torch: what it printed, and wrote to stderr.

    What it raises is raised here. It may change the process as it likes, but what Python does at an
    exit is not done.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["torch._dynamo"])
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(_run, program).result()


def _run(program: str) -> tuple[str, str]:
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    return out.getvalue(), err.getvalue()
