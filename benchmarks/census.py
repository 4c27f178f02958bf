"""A census of transformers: which architectures does mending make whole, and is any result wrong?

    python benchmarks/census.py --out census.jsonl                 # everything; takes hours
    python benchmarks/census.py --out census.jsonl --sample 60     # an even sample
    python benchmarks/census.py --out census.jsonl --summary       # only the tables

Each architecture is shrunk, given random weights, and run in a process of its own with a time
limit: eagerly, under stock ``torch.compile`` and with mending, all with the backend "eager", so
that every bit must be the same. A row of the file is one architecture in one mode; rows that are
there already are not run again. Whichever transformers is imported is counted.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import logging
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from children import parser, run_all, said, sample, say
from tally import BAD, chart, read, summary, verdict

MODES = ("eval", "train")

Row = dict[str, Any]


# The child: one architecture


def measure(architecture: str, modes: Sequence[str]) -> None:
    """Run all arms of one architecture and print a row a mode."""
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.logging.set_verbosity_warning()
    transformers.logging.disable_default_handler()
    warnings.simplefilter("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)
    for mode in modes:
        row = {"model": architecture, "mode": mode, "transformers": transformers.__version__}
        start = time.perf_counter()
        row |= _measured(architecture, train=mode == "train")
        row["seconds"] = round(time.perf_counter() - start, 1)
        say(row)


def _measured(architecture: str, train: bool) -> Row:
    """All arms of one model in one mode."""
    import arms
    from telling import compared, steady

    try:
        subject, row = _subject(architecture, train)
        expected, unsteady = steady(subject)
    except Exception as error:
        return {"status": "did not run", "reason": arms.last_line(error)}
    if unsteady:
        return {**row, "status": "did not run", "reason": unsteady}
    arms.compiled(subject, mends=False)  # the first arm would pay for what torch then loads
    stock = arms.compiled(subject, mends=False)
    if "mark_static_address" in stock.error and not subject.without_cache:
        # Some caches cannot be made inside a compiled function at all.
        subject = replace(subject, without_cache=True)
        row["attempt"] += ", no cache"
        expected = arms.eager(subject)
        stock = arms.compiled(subject, mends=False)
    return row | compared(subject, expected, stock)


def _subject(architecture: str, train: bool) -> tuple[Any, Row]:
    """The first attempt at building and calling a model that runs eagerly."""
    import arms
    import zoo
    from architecture import Architecture, copier

    first: Exception | None = None
    for attempt in zoo.attempts():
        try:
            model, inputs = zoo.build(architecture, attempt)
        except Exception as error:
            first = first or error
            continue
        fresh = copier(model, lambda a=attempt: zoo.build(architecture, a)[0])
        subject = Architecture(fresh, inputs.make, train)
        for _ in range(3):
            try:
                arms.eager(subject)
            except Exception as error:
                first = first or error
                if inputs.learn(error):
                    continue
                break
            given = sorted(inputs.make(1))
            kind = type(model).__name__
            return subject, {"class": kind, "attempt": str(attempt), "inputs": given}
    raise first or ValueError("nothing to try")


# The parent: all of them


def census(options: argparse.Namespace) -> None:
    """Run a child for each architecture that has rows missing."""
    done = {(row["model"], row["mode"]) for row in read(options.out)}
    missing = {
        name: [mode for mode in options.modes if (name, mode) not in done]
        for name in _chosen(options)
    }
    work = {
        name: partial(_child, name, modes, options.limit)
        for name, modes in missing.items()
        if modes
    }
    run_all(work, options.out, options.jobs)


def _chosen(options: argparse.Namespace) -> list[str]:
    import zoo

    names = [name for name in zoo.architectures() if options.filter in name]
    if options.only:
        names = options.only.split(",")
    return sample(names, options)


def _child(name: str, modes: Sequence[str], limit: float) -> list[Row]:
    """Rows of one architecture; rows that say so for modes that the child did not come to."""
    command = [__file__, "--child", name, "--mode", ",".join(modes)]
    rows, reason = said(command, limit * len(modes))
    release = importlib.metadata.version("transformers")
    for mode in modes[len(rows) :]:
        row = {"model": name, "mode": mode, "transformers": release}
        rows.append({**row, "status": "no result", "reason": reason})
        reason = f"after {modes[len(rows) - 2]}" if len(rows) > 1 else reason
    return rows


def main() -> int:
    options_of = parser(__doc__ or "", "census.jsonl", 150)
    options_of.add_argument("--mode", default="both", help="eval, train or both")
    options_of.add_argument("--only", default="", help="names, separated by commas")
    options_of.add_argument("--plot", type=Path, help="file for a chart, in SVG")
    options = options_of.parse_args()
    options.modes = MODES if options.mode == "both" else options.mode.split(",")
    if options.child:
        measure(options.child, options.modes)
        return 0
    if not options.summary:
        census(options)
    rows = read(options.out)
    print(summary(rows))
    if options.plot:
        options.plot.write_text(chart(rows), encoding="utf-8")
    return 1 if any(verdict(row) in BAD for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
