"""Weaken each check of legality, or of other modules, in turn: which of their tests notices?

    python -m tests.mutation --reach             # notes first which tests come by which line
    python -m tests.mutation                     # all of legality
    python -m tests.mutation graphmend_bc/legality/choose.py --out build/mutation.jsonl

A line is printed for each mutant that no test notices; the exit status is 1 if there is one that
`equivalent.toml` does not explain.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.reach import tests_by_line
from tests.mutation.trial import first_failure, preload

ROOT = Path(__file__).parents[2]
REACH = Path("build/mutation/reach")
MODULES = sorted(ROOT.glob("graphmend_bc/legality/*.py"))
MOST = 40
"""Test functions that are run for a mutant, at most."""


def note_reach(modules: Sequence[Path]) -> None:
    """Run the tests of some packages with `coverage`, which notes which of them run each line."""
    REACH.parent.mkdir(parents=True, exist_ok=True)
    settings = REACH.with_suffix(".ini")
    measured = "\n    ".join(str(module.absolute()) for module in modules)
    settings.write_text(
        f"[run]\ndata_file = {REACH.absolute()}\ndynamic_context = test_function\n"
        f"include =\n    {measured}\n"
    )
    tests = sorted({f"tests/{module.absolute().parent.name}" for module in modules})
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"]
    subprocess.run([*command, "-q", "-m", "not slow and not nightly", *tests], check=True, cwd=ROOT)


def rows(module: Path, done: dict[str, str], out: Path | None) -> Iterator[tuple[str, str]]:
    """Each mutant of a module with what notices it, those of earlier runs included."""
    path = str(module.relative_to(ROOT))
    reach = tests_by_line(REACH, module)
    # A module of sets alone has no line that runs in a test.
    anywhere = sorted({test for tests in reach.values() for test in tests})
    anywhere = anywhere or [f"tests/{module.parent.name}"]
    for mutant in mutants_of(module.read_text()):
        name = f"{path}: {mutant.function}: {mutant.change}"
        if name not in done:
            # A set, and the later lines of a condition, are known by no line of their own.
            done[name] = _tried(path, mutant, reach.get(mutant.line) or anywhere)
            if out:
                with out.open("a") as file:
                    print(json.dumps({"mutant": name, "noticed_by": done[name]}), file=file)
        yield name, done[name]


def _tried(path: str, mutant: Mutant, tests: list[str]) -> str:
    if not tests:
        return ""
    return first_failure(_module(path), mutant.function, mutant.source, tests[:MOST])


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")


def main() -> int:
    """Try what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("modules", nargs="*", type=Path, default=MODULES)
    parser.add_argument("--reach", action="store_true", help="note which tests come by which line")
    parser.add_argument("--out", type=Path, help="lines of JSON; what it has is not tried again")
    given = parser.parse_args()
    if given.reach:
        note_reach(given.modules)
    preload([_module(str(path.absolute().relative_to(ROOT))) for path in given.modules])
    explained = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text())
    done, counts = dict[str, str](), Counter[str]()
    if given.out and given.out.exists():
        lines = map(json.loads, given.out.read_text().splitlines())
        done = {row["mutant"]: row["noticed_by"] for row in lines}
    for module in given.modules:
        for name, noticed_by in rows(module.absolute(), done, given.out):
            kind = "noticed" if noticed_by else "explained" if name in explained else "unnoticed"
            counts[kind] += 1
            if kind == "unnoticed":
                print(name, flush=True)
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(counts["unnoticed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
