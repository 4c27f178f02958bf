"""Runs of a program in processes of their own, each with some of its mends alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from graphmend_bc.runtime.same_text import same_text

NOTHING: Final = "nothing:0"
"""A place that no program has: with it alone nothing is mended."""

_SKIP: Final = 125
"""The exit status of a check that cannot say, as for `git bisect run`."""


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one run.

    Attributes:
        status: exit status of the program; None if it took too long.
        output: what it printed.
        errors: what it wrote to stderr.
        check: exit status of the check; None without one.
        mends: what was mended, as the report has it.
        has_started: False if there was no program to run; the last line of `errors` says why.
    """

    status: int | None
    output: str
    errors: str
    check: int | None = None
    mends: tuple[dict[str, Any], ...] = ()
    has_started: bool = True

    def is_like(self, other: Run) -> bool:
        """Whether two runs cannot be told apart: by the check, or by status and output."""
        if self.check is not None:
            return (self.check == 0) == (other.check == 0)
        return self.status == other.status and same_text(self.output, other.output)

    def in_words(self) -> str:
        """How it ended."""
        if self.status is None:
            return "it took too long"
        said = self.errors.strip().splitlines()[-1:] if self.status else []
        return ": ".join([f"its exit status is {self.status}", *said])


@dataclass(slots=True)
class Trials:
    """Runs a program again and again.

    Attributes:
        program: the arguments after `graphmend-bc run` that name it, and its own.
        check: a command that gets what the program prints; empty to compare the runs.
        timeout: seconds that a run may take; None for any number.
        count: how many runs there were.
    """

    program: Sequence[str]
    check: Sequence[str] = ()
    timeout: float | None = None
    count: int = 0
    _known: dict[frozenset[str], Run] = field(default_factory=dict)

    def stock(self) -> Run:
        """A run without mending."""
        return self._run({"GRAPHMEND_BC": "0"})

    def mended(self) -> Run:
        """A run with all that is mended."""
        return self._run({})

    def with_places(self, places: Sequence[str]) -> Run:
        """A run in which some lines alone are mended; the same one is not made twice.

        Args:
            places: each as "file:line".
        """
        key = frozenset(places)
        if key not in self._known:
            only = ",".join(places) or NOTHING
            self._known[key] = self._run({"GRAPHMEND_BC_SITES_ONLY": only})
        return self._known[key]

    def _run(self, settings: dict[str, str]) -> Run:
        self.count += 1
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            command = [
                sys.executable,
                "-m",
                "graphmend_bc",
                "run",
                "--quiet",
                "--json",
                str(report),
            ]
            off = {"GRAPHMEND_BC_DISK_CACHE": "0"}
            environment = {**os.environ, **off, **settings}
            try:
                done = subprocess.run(
                    [*command, *self.program],
                    capture_output=True,
                    text=True,
                    env=environment,
                    timeout=self.timeout,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Run(None, "", "", 1 if self.check else None)
            checked = self._checked(done, environment)
            # `run` ends with 1 or 2 and reports nothing if it does not get as far as the program.
            has_started = report.exists() or done.returncode not in (1, 2)
            mends = json.loads(report.read_text())["mends"] if report.exists() else ()
        said = done.stdout, done.stderr
        return Run(done.returncode, *said, checked, tuple(mends), has_started)

    def _checked(
        self, done: subprocess.CompletedProcess[str], environment: dict[str, str]
    ) -> int | None:
        """The exit status of the check; 0 where it cannot say."""
        if not self.check:
            return None
        told = {**environment, "GRAPHMEND_BC_STATUS": str(done.returncode)}
        ran = subprocess.run(self.check, input=done.stdout, text=True, env=told, check=False)
        return 0 if ran.returncode == _SKIP else ran.returncode


def place_of(mend: dict[str, Any]) -> str:
    """The line of a mend, as the settings name it."""
    return f"{mend['site']['filename']}:{mend['site']['lineno']}"
