"""What the batches of a run came to, and the scripts of what was found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

_TREE = Path(__file__).parents[2]


class Tally:
    """Counts of all batches, and the programs that mending gets wrong.

    Args:
        out: the folder for their scripts.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self.faults: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.found: list[str] = []

    def add(self, seed: int, status: int, folder: Path) -> None:
        """Count a batch that has ended.

        Args:
            seed: of the batch.
            status: with which its process ended.
            folder: where it wrote its answer.
        """
        answer = folder / f"{seed}.json"
        if status != 0 or not answer.exists():
            running, log = folder / f"{seed}.running", folder / f"{seed}.log"
            tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            script = running.read_text(encoding="utf-8") if running.exists() else ""
            self._keep(f"ended_{seed}", script)
            self.found.append(f"The process of batch {seed} ended with {status}. {tail}")
            return
        batch: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        for name in ("faults", "met", "kinds"):
            getattr(self, name).update(batch[name])
        for number, (script, difference) in enumerate(batch["found"]):
            path = self._keep(f"found_{seed}_{number}", script)
            again = "" if _fails(path) else " (its script does not say so again)"
            self.found.append(f"{path.name}: {difference}{again}")
        if batch["stock"]:
            self._keep(f"stock_{seed}", batch["stock"])

    def _keep(self, name: str, script: str) -> Path:
        self.out.mkdir(parents=True, exist_ok=True)
        path = self.out / f"{name}.py"
        path.write_text(script, encoding="utf-8")
        return path

    def __str__(self) -> str:
        programs = sum(self.faults.values())
        return (
            f"{programs} programs, {self.faults['NONE']} exact, {self.faults['STOCK']} that stock "
            f"gets wrong too, {self.faults['BACKEND']} the backend, {len(self.found)} failures"
        )

    def details(self) -> str:
        """The kinds of the programs, which strategies and reasons they met, and what failed."""
        lines = [
            f"{title}: {', '.join(f'{name} {count}' for name, count in counts.most_common())}"
            for title, counts in (("Kinds of programs", self.kinds), ("Met in programs", self.met))
        ]
        lines += [difference[:400] for difference in self.found]
        return "\n".join([*lines, f"Scripts are in {self.out}."] if self.out.exists() else lines)


def _fails(script: Path) -> bool:
    """True if a script shows its difference by itself, as somebody who is given it sees it."""
    command = [sys.executable, str(script.resolve())]
    tree = os.environ | {"PYTHONPATH": str(_TREE)}
    return (
        subprocess.run(
            command, capture_output=True, cwd=script.parent, env=tree, check=False
        ).returncode
        == 1
    )
