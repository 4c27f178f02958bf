"""Python processes that a program starts, in which mending is not on."""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

_COMPILERS = ("torch._inductor", "torch._dynamo")
"""Begins the modules whose processes compile for this one."""


@dataclass(slots=True)
class ChildProcesses:
    """How many were started; counted from `watch()` on, until the process ends.

    A forked process is not counted: mending is on in it as well.

    Attributes:
        by_multiprocessing: with the methods "spawn" and "forkserver".
        by_subprocess: programs of Python other than the command line of this package.
    """

    by_multiprocessing: int = 0
    by_subprocess: int = 0

    def watch(self) -> None:
        """Count from now on."""
        start, popen = BaseProcess.start, subprocess.Popen.__init__

        @functools.wraps(start)
        def counted_start(process: BaseProcess) -> None:
            start(process)
            self.by_multiprocessing += _start_method(process) != "fork"

        @functools.wraps(popen)
        def counted_popen(process: Any, args: Any, *rest: Any, **options: Any) -> None:
            popen(process, args, *rest, **options)
            self.by_subprocess += _is_python(args) and not _is_compilers(sys._getframe(1))

        BaseProcess.start = counted_start  # type: ignore[assignment,method-assign]
        subprocess.Popen.__init__ = counted_popen  # type: ignore[assignment,method-assign]

    def __str__(self) -> str:
        """A sentence; empty if there were none."""
        counts = {"multiprocessing": self.by_multiprocessing, "subprocess": self.by_subprocess}
        ways = [f"{count} by {way}" for way, count in counts.items() if count]
        if not ways:
            return ""
        return (
            f"The program started other Python processes ({', '.join(ways)}). What they compile "
            "is not in this report, and not mended unless they call graphmend_bc.enable()."
        )


def _start_method(process: BaseProcess) -> str:
    """The method of the process's class; one of no certain method is started by the default."""
    return getattr(process, "_start_method", None) or multiprocessing.get_start_method()


def _is_python(args: Any) -> bool:
    """Whether a command is a program of Python, and not one with mending on."""
    if not isinstance(args, (list, tuple)) or not args:
        return False
    program, *rest = map(os.fsdecode, (arg for arg in args if isinstance(arg, (str, os.PathLike))))
    is_interpreter = program == sys.executable or os.path.basename(program).startswith("python")
    return is_interpreter and "graphmend_bc" not in rest


def _is_compilers(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith(_COMPILERS):
            return True
        frame = frame.f_back
    return False
