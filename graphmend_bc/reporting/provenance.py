"""What a report was made by: the program, the versions, the time."""

from __future__ import annotations

import platform
import re
import shlex
import sys
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

import graphmend_bc


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a report comes from. Every JSON has it as `provenance`, every page at its top.

    Attributes:
        program: the program, as Python has it in `sys.argv`; empty in an interactive Python.
        command: the command line of this process, with Python's own options.
        graphmend_bc, torch, python: their versions.
        time: when the report was written, with the offset from UTC.
    """

    program: str
    command: str
    graphmend_bc: str
    torch: str
    python: str
    time: str

    @classmethod
    def here(cls, program: str = "") -> Provenance:
        """That of a report which this process writes now.

        Args:
            program: what ran, if it was not the program in `sys.argv`.

        Example:
            >>> Provenance.here("model.py").program
            'model.py'
        """
        arguments = getattr(sys, "argv", None) or [""]  # a host of Python need not have set it
        return cls(
            program=program or arguments[0],
            command=shlex.join(sys.orig_argv),
            graphmend_bc=graphmend_bc.__version__,
            torch=torch_version(),
            python=platform.python_version(),
            time=datetime.now().astimezone().isoformat(sep=" ", timespec="seconds"),
        )

    @property
    def versions(self) -> str:
        """The versions in one line."""
        return f"graphmend_bc {self.graphmend_bc}, torch {self.torch}, Python {self.python}"


def torch_version() -> str:
    """The version of the installed torch and what it was built for; torch is not imported."""
    try:
        found = metadata.distribution("torch")
    except metadata.PackageNotFoundError:
        return "not installed"
    file = Path(str(found.locate_file("torch/version.py")))
    written = re.search(r"__version__ = '(.+)'", file.read_text()) if file.is_file() else None
    return written[1] if written else found.version
