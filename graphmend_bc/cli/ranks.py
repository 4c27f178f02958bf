"""Several processes that run one program: each has its own report, and says which one it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path


def rank() -> tuple[int, int] | None:
    """This process's rank and their number, as torchrun sets them; None if it is the only one."""
    texts = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    if not all(map(str.isdecimal, texts)) or int(texts[1]) < 2:
        return None
    return int(texts[0]), int(texts[1])


def of_this_rank(path: Path) -> Path:
    """The file in a file's place that no other rank writes.

    Args:
        path: what the command line names, such as report.html; for rank 1, report.rank1.html.
    """
    here = rank()
    return path if here is None else path.with_name(f"{path.stem}.rank{here[0]}{path.suffix}")


@contextmanager
def labelled() -> Iterator[None]:
    """Put the rank before each line that is written to stderr; all at once, at the end."""
    here = rank()
    if here is None:
        yield
        return
    with redirect_stderr(StringIO()) as text:
        yield
    lines = text.getvalue().splitlines()
    sys.stderr.write("".join(f"[rank {here[0]} of {here[1]}] {line}\n" for line in lines))
