"""Results of runs, kept as a line each in a file, and the table of them in the docs."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

_TREE: Final = Path(__file__).parents[2]
FILE: Final = _TREE / "docs/results/fuzz.jsonl"
PAGE: Final = _TREE / "docs/testing.md"
BEGIN, END = "<!-- generated programs -->\n", "<!-- end -->"


@dataclass(frozen=True)
class Run:
    """What one run of `python -m tests.fuzz` came to.

    Attributes:
        command: that makes the same programs.
        commit: of the tree, with "+" if it was changed.
        python, torch, device: what they ran on.
        seconds: how long it took.
        programs: how many were judged.
        faults: of how many, by verdict.
        kinds: how many were of each kind.
        met: in how many each strategy and reason was met.
        found: the differences that mending is to blame for.
    """

    command: str
    commit: str
    python: str
    torch: str
    device: str
    seconds: int
    programs: int
    faults: Mapping[str, int]
    kinds: Mapping[str, int]
    met: Mapping[str, int]
    found: list[str] = field(default_factory=list)


def run_of(
    arguments: Iterable[str],
    device: str,
    seconds: float,
    counts: tuple[Counter[str], Counter[str], Counter[str]],
    found: list[str],
) -> Run:
    """A run as it is kept.

    Args:
        arguments: of the command.
        device: where tensors were made.
        seconds: it took.
        counts: of verdicts, kinds, and strategies and reasons.
        found: what mending got wrong.
    """
    faults, kinds, met = (dict(sorted(counter.items())) for counter in counts)
    return Run(
        command=" ".join(["python -m tests.fuzz", *arguments]),
        commit=commit(),
        python=platform.python_version(),
        torch=torch.__version__.partition("+")[0],
        device=device,
        seconds=round(seconds),
        programs=sum(faults.values()),
        faults=faults,
        kinds=kinds,
        met=met,
        found=found,
    )


def commit() -> str:
    """The commit of this tree, with "+" after it if something in it was changed since."""
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        return commit + (
            "+" if _git("status", "--porcelain", "-uno", "graphmend_bc", "tests") else ""
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(_TREE), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def keep(run: Run, file: Path) -> None:
    """Add a run to a file."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(run)) + "\n")


def kept(file: Path = FILE) -> list[dict[str, Any]]:
    """The runs in a file, in the order in which they were made."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def table(runs: list[dict[str, Any]]) -> str:
    """The runs and the kinds of their programs, for the docs."""
    lines = [
        "| command | commit | Python, torch | programs | exact | stock is wrong too | the backend is | mending is |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        faults = run["faults"]
        wrong = run["programs"] - sum(faults.get(name, 0) for name in ("NONE", "STOCK", "BACKEND"))
        numbers = (faults.get(name, 0) for name in ("NONE", "STOCK", "BACKEND"))
        cells = (
            f"`{run['command']}`",
            run["commit"],
            f"{run['python']}, {run['torch']}",
            *map("{:,}".format, (run["programs"], *numbers, wrong)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    kinds = sum((Counter(run["kinds"]) for run in runs), Counter[str]())
    shown = ", ".join(f"{name} {count:,}" for name, count in kinds.most_common())
    return "\n".join([*lines, "", f"Programs by kind (a program is of several): {shown}.", ""])


def write_table() -> None:
    """Put the table into the docs."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table(kept())}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(write_table())
