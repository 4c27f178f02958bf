"""Measuring each subject of a census in a process of its own, with a time limit.

A child prints each row as a line that begins with `MARK`; the parent appends it to a file of rows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from tally import BAD, verdict
from tqdm import tqdm

MARK = "census-row: "

Row = dict[str, Any]


def parser(description: str, out: str, limit: float) -> argparse.ArgumentParser:
    """The options that each census has.

    Args:
        description: of the census.
        out: the file of rows, if none is given.
        limit: seconds for a child, if none are given.
    """
    made = argparse.ArgumentParser(description=description.partition("\n")[0])
    made.add_argument("--out", type=Path, default=Path(out), help="file of rows")
    made.add_argument("--filter", default="", help="part of the subjects' names")
    made.add_argument("--sample", type=int, default=0, help="as many, drawn at random")
    made.add_argument("--seed", type=int, default=0, help="of the sample")
    made.add_argument("--jobs", type=int, default=1, help="children at a time")
    made.add_argument("--limit", type=float, default=limit, help="seconds for a child")
    made.add_argument("--summary", action="store_true", help="only print the tables")
    made.add_argument("--child", default="", help=argparse.SUPPRESS)
    return made


def sample(names: list[str], options: argparse.Namespace) -> list[str]:
    """As many of some subjects as the options ask for."""
    if not options.sample or options.sample >= len(names):
        return names
    return sorted(random.Random(options.seed).sample(names, options.sample))


def say(row: Row) -> None:
    """Print a row, in a child."""
    print(f"{MARK}{json.dumps(row)}", flush=True)


def said(command: Sequence[str], limit: float) -> tuple[list[Row], str]:
    """Run a script as a child; its rows, and how it ended if it said less than it should."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    process = subprocess.Popen(
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    reason = ""
    try:
        out, errors = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        reason = "time limit"
    marked = [line for line in out.split("\n") if line.startswith(MARK)]
    rows: list[Row] = [json.loads(line.removeprefix(MARK)) for line in marked]
    return rows, reason or f"exit {process.returncode}: {errors.strip()[-300:]}"


def run_all(work: Mapping[str, Callable[[], Sequence[Row]]], out: Path, jobs: int) -> None:
    """Do all work, as many at a time as there are jobs, and append the rows to a file."""
    bar = tqdm(total=len(work), unit="subject", smoothing=0.05)
    with ThreadPoolExecutor(jobs) as pool, out.open("a", encoding="utf-8") as file:
        futures = {pool.submit(do): name for name, do in work.items()}
        for future in as_completed(futures):
            for row in future.result():
                file.write(json.dumps(row) + "\n")
                if verdict(row) in BAD:
                    tqdm.write(f"{verdict(row)}: {futures[future]} {row.get('mode', '')}")
            file.flush()
            bar.set_postfix_str(futures[future])
            bar.update()
    bar.close()
