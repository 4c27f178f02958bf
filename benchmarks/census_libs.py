"""A census of libraries: which of their uses does mending make whole, and is any result wrong?

    python benchmarks/census_libs.py --packages build/libs --out libs.jsonl
    python benchmarks/census_libs.py --packages build/libs --out libs.jsonl --sample 20
    python benchmarks/census_libs.py --out libs.jsonl --summary        # only the tables
    python benchmarks/census_libs.py --packages build/libs --eager     # do all items run at all?

Each item of `libs` runs in a process of its own with a time limit: eagerly, under stock
``torch.compile`` and with mending, all with the backend "eager", so that every bit must be the
same. A row of the file is one item; rows that are there already are not run again. `make
census-libs` installs the libraries.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import io
import json
import logging
import re
import statistics
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from children import parser, run_all, said, sample, say
from libs_tally import summary
from tally import BAD, read, verdict

CALLS = range(8)
"""Numbers of the calls; the last ones show what a call takes that compiles nothing."""
AT_REST = 4
TOO_LONG = {"causes": 6, "later_causes": 3, "differs": 8, "complaints": 2}
"""How many of its entries a row keeps, to stay short."""

Row = dict[str, Any]


# The child: one item


@dataclass(frozen=True, slots=True)
class Program:
    """An item as the arms run it."""

    item: Any
    numbers: Sequence[int] = CALLS

    def fresh(self) -> _Made:
        import arms

        arms.seed_all(0)
        return _Made(self.item.make())


class _Made:
    def __init__(self, use: Any) -> None:
        self.use, self.function = use, use.function

    def call(self, function: Any, number: int, seconds: list[float]) -> Row:
        """Make one call, and keep what can be seen of it."""
        import arms
        import torch
        from seen import aliasing, kept, leaves_of, state_of

        arms.seed_all(number)
        inputs, printed = self.use.inputs(number), io.StringIO()
        told = arms.messages(logging.getLogger(), _is_of_library)
        grads = torch.set_grad_enabled(self.use.kind != "eval")
        with grads, redirect_stdout(printed), told as texts, arms.timed(seconds):
            output = function(*inputs)
            if self.use.kind == "train":
                arms.mean_of(dict(leaves_of(output, "output"))).backward()
        leaves = dict(leaves_of(output, "output"))
        seen = {"aliasing of outputs": aliasing(leaves)}
        for name, value in (("after: input", inputs), ("state", self.use.state)):
            leaves |= dict(state_of(value, name))
        seen |= {path: kept(leaf) for path, leaf in leaves.items()}
        texts = [text for text in texts if not str(text[0]).startswith(("torch.", "graphmend"))]
        return seen | arms.random_numbers() | {"messages": texts, "printed": printed.getvalue()}


def _is_of_library(path: str) -> bool:
    """Whether a warning is of the item's library; torch warns of its own while it compiles."""
    import torch

    import graphmend_bc

    return not path.startswith((*torch.__path__, *graphmend_bc.__path__))


def _shows_nothing(arm: Any) -> bool:
    """Whether no call gave a tensor or a number."""
    values = [v for p, v in arm.calls[0].items() if p.startswith("output")]
    return all(v is None or isinstance(v, str) for v in values)


def measure(item: Any) -> Row:
    """All arms of one item."""
    import arms
    from measuring import environment
    from telling import compared

    start = time.perf_counter()
    where = environment()
    row = {
        "library": item.library,
        "version": importlib.metadata.version(item.library),
        "item": item.name,
        **{name: where[name] for name in ("python", "torch", "commit") if name in where},
    }
    subject = Program(item)
    try:
        expected, fault = _steady(subject)
        row["kind"] = item.make().kind
    except Exception as error:
        return {**row, "status": "did not run", "reason": arms.last_line(error)}
    if fault:
        return {**row, "status": "did not run", "reason": fault}
    arms.compiled(subject, mends=False)  # the first arm would pay for what torch then loads
    stock = arms.compiled(subject, mends=False)
    row |= _short(compared(subject, expected, stock), expected)
    return row | {"took": round(time.perf_counter() - start, 1)}


def _short(row: Row, expected: Any) -> Row:
    """A row as it is kept: what is long is cut; of the times, the first and the median at rest."""
    row = _without_folders(row)
    for arm in (row["stock"], row["mended"], *row.pop("numpy_stream", ())):
        arm["attempts"] = sum(arm["attempts"])
        times = arm.pop("seconds")
        arm["first"] = round(times[0], 3)
        arm["rest"] = _at_rest(times) if len(times) == len(CALLS) else None
        arm |= {name: arm[name][:most] for name, most in TOO_LONG.items()}
    row["mends"] = [f"{mend['strategy']} {mend['at']}" for mend in row["mends"]][:8]
    row["declines"] = [
        {"reason": decline["reason"], "at": decline["at"], "why": decline["why"][:120]}
        for decline in row["declines"][:4]
    ]
    del row["speculations"]
    return {**row, "eager_rest": _at_rest(expected.seconds)}


def _without_folders(row: Row) -> Row:
    """A row whose texts name files from the packages' folder on, or from the tree's."""
    folders = r'[^\s"]*/(site-packages/|build/libs/|(?=benchmarks/))'
    return json.loads(re.sub(folders, "", json.dumps(row)))


def _steady(program: Program) -> tuple[Any, str]:
    """The eager arm, and why the program cannot be counted; empty if it can."""
    import arms
    from telling import steady

    arms.eager(program)  # what a library builds once in a process is built now
    expected, fault = steady(program)
    return expected, "it gives no tensor and no number" if _shows_nothing(expected) else fault


def _at_rest(seconds: Sequence[float]) -> float:
    return round(statistics.median(seconds[-AT_REST:]), 6)


def _prepare(packages: Path | None) -> None:
    """What must be so before a library is imported."""
    import libs
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)
    if packages is not None:
        libs.add_packages(packages)


# The parent: all of them


def census(options: argparse.Namespace) -> None:
    """Run a child for each item that has no row."""
    done = {f"{row['library']}/{row['item']}" for row in read(options.out)}
    work = {name: partial(_child, name, options) for name in _chosen(options) if name not in done}
    run_all(work, options.out, options.jobs)


def _chosen(options: argparse.Namespace) -> list[str]:
    import libs

    names = sorted(name for name in libs.items(options.modules) if options.filter in name)
    return sample(names, options)


def _child(name: str, options: argparse.Namespace) -> list[Row]:
    """The row of one item; one that says why if the child came to none."""
    command = [__file__, "--child", name, "--modules", ",".join(options.modules)]
    if options.packages is not None:
        command += ["--packages", str(options.packages)]
    rows, reason = said(command, options.limit)
    library, item = name.split("/")
    return rows or [{"library": library, "item": item, "status": "no result", "reason": reason}]


def eagerly(options: argparse.Namespace) -> bool:
    """Run all items twice without a compiler, in this process; whether all can be counted."""
    import libs
    from arms import last_line

    bad = 0
    for name in _chosen(options):
        start = time.perf_counter()
        try:
            fault = _steady(Program(libs.items(options.modules)[name]))[1]
        except Exception as error:
            fault = last_line(error)
        bad += bool(fault)
        print(f"{name:60} {time.perf_counter() - start:6.1f} s  {fault or 'runs'}", flush=True)
    return not bad


def main() -> int:
    options_of = parser(__doc__ or "", "libs.jsonl", 120)
    options_of.add_argument("--packages", type=Path, help="folder that the libraries lie in")
    options_of.add_argument("--modules", default="", help="modules of items, not those of libs")
    options_of.add_argument("--eager", action="store_true", help="only see whether the items run")
    options = options_of.parse_args()
    options.modules = [name for name in options.modules.split(",") if name]
    if options.child or options.eager:
        _prepare(options.packages)
    if options.child:
        import libs

        say(measure(libs.items(options.modules)[options.child]))
        return 0
    if options.eager:
        return 0 if eagerly(options) else 1
    if not options.summary:
        census(options)
    rows = read(options.out)
    print(summary(rows))
    return 1 if any(verdict(row) in BAD for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
