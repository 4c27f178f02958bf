"""What the arms of a test came to, and the table of the kept runs in the docs."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

_TREE: Final = Path(__file__).parents[2]
FILE: Final = _TREE / "docs/results/library_tests.jsonl"
PAGE: Final = _TREE / "docs/testing.md"
BEGIN, END = "<!-- tests of libraries -->\n", "<!-- end of tests -->"

Row = dict[str, Any]
_FOLDERS: Final = re.compile(r"[^\s\"]*/(site-packages/|library_tests/|(?=tests/))")
"""The part of a file's name that is of this machine."""
NOT_COUNTED, SAME, STOCK = "not counted", "as eager", "stock differs too"
TOO_LONG, MENDING = "takes too long", "mending differs"
"""Too long: mending compiles for longer than a test may take, and nothing is known of results."""
VERDICTS: Final = (NOT_COUNTED, SAME, STOCK, TOO_LONG, MENDING)


def has_difference(arms: Mapping[str, Row]) -> bool:
    """Whether it has to be found out whom a test's rows "eager" and "mended" speak against."""
    return bool(_internal_errors(arms["mended"]) or differences(arms["eager"], arms["mended"]))


def verdict(arms: Mapping[str, Row]) -> tuple[str, str]:
    """Whether mending does as eager Python, whom a difference is due to, and what it is.

    Args:
        arms: the rows of "eager" and "mended", and if these differ of "again", which is eager Python
            once more, and of "stock".
    """
    eager = arms["eager"]
    if eager["outcome"] != "passed":
        return NOT_COUNTED, str(eager["outcome"])
    if not has_difference(arms):
        return SAME, ""
    mended, stock = arms["mended"], arms["stock"]
    if unsteady := differences(eager, arms["again"]):
        return NOT_COUNTED, f"eager Python does otherwise the second time: {', '.join(unsteady)}"
    if internal := _internal_errors(mended):
        return MENDING, internal[0]
    found, of_stock = differences(eager, mended), differences(eager, stock)
    if stock["outcome"] != "passed" or (
        mended["outcome"] == "passed" and set(found) <= set(of_stock)
    ):
        return STOCK, ", ".join(found)
    if mended["outcome"] == "too long":
        return TOO_LONG, ""
    return MENDING, ", ".join(found)


def _internal_errors(row: Row) -> list[str]:
    return [text for text in row.get("declines", ()) if text.startswith("internal-error")]


def differences(eager: Row, other: Row) -> list[str]:
    """What is otherwise than in eager Python: the outcome, or else variables of the test."""
    if other["outcome"] != eager["outcome"]:
        return [f"{other['outcome']}: {other.get('why', '')}".rstrip(": ")]
    saw, seen = eager.get("saw", {}), other.get("saw", {})
    return sorted(name for name in saw.keys() | seen.keys() if saw.get(name) != seen.get(name))


def run_of(about: Row, tests: Mapping[str, Mapping[str, Row]], shown: int = 200) -> dict[str, Any]:
    """A run as it is kept: a line for one library.

    Args:
        about: the library, versions, how tests were run.
        tests: the rows of each test, by arm.
        shown: characters of a text that are kept.
    """
    found = {name: verdict(arms) for name, arms in tests.items()}
    counted = [arms for name, arms in tests.items() if found[name][0] != NOT_COUNTED]
    return {
        **about,
        "tests": len(tests),
        "verdicts": dict(Counter(known for known, _ in found.values())),
        "compiled": sum(bool(arms["mended"].get("graphs")) for arms in counted),
        "mended": sum(bool(arms["mended"].get("mends")) for arms in counted),
        "strategies": _counted(arm["mended"].get("mends", ()) for arm in counted),
        "differ": [
            {"test": name, "verdict": known, "what": _FOLDERS.sub("", what)[:shown]}
            for name, (known, what) in found.items()
            if known in (STOCK, TOO_LONG, MENDING)
        ],
    }


def _counted(mends: Iterable[Iterable[str]]) -> dict[str, int]:
    """In how many tests each strategy mended something."""
    return dict(sorted(Counter(s for one in mends for s in {m.split()[0] for m in one}).items()))


def keep(run: Row, file: Path = FILE) -> None:
    """Add a run to a file."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(run) + "\n")


def kept(file: Path = FILE) -> list[Row]:
    """The runs in a file, in the order in which they were made."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def table(runs: list[Row]) -> str:
    """The runs, for the docs."""
    lines = [
        "| library | compiled, backend | torch | tests | not counted | compiled something "
        "| something mended | as eager | stock differs too "
        "| too long | mending differs |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        of = run["verdicts"]
        cells = (
            f"{run['library']} {run['version']}",
            f"{run['what']}, {run['backend']}",
            run["torch"],
            *(run["tests"], of.get(NOT_COUNTED, 0), run["compiled"], run["mended"]),
            *(of.get(known, 0) for known in VERDICTS[1:]),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    of = sum((Counter(run["verdicts"]) for run in runs), Counter[str]())
    told = ", ".join(f"{of[known]:,} {known}" for known in VERDICTS)
    names = {run["library"] for run in runs}
    mended = sum(run["mended"] for run in runs)
    together = f"Of {of.total():,} tests of {len(names)} libraries: {told}; in {mended:,} something was mended."
    return "\n".join([*lines, "", together, ""])


def write_table() -> None:
    """Put the table into the docs."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{table(kept())}\n{END}{after}", encoding="utf-8")
