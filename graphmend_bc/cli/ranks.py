"""Several processes that run one program: each has its own report, and says which one it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path

_AT_ONCE = 4096
"""Bytes that a pipe takes in one piece on Linux."""


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
def labelled(redirect: Callable[[StringIO], AbstractContextManager[StringIO]]) -> Iterator[None]:
    """Put the rank before each line that is written; all at once, at the end.

    Args:
        redirect: `redirect_stderr` or `redirect_stdout`, whichever is written to.
    """
    here = rank()
    if here is None:
        yield
        return
    with redirect(StringIO()) as text:
        yield
    stream = sys.stderr if redirect is redirect_stderr else sys.stdout
    for piece in _pieces(f"[rank {here[0]} of {here[1]}] ", text.getvalue()):
        stream.write(piece)
        stream.flush()


def _pieces(label: str, text: str) -> Iterator[str]:
    """Labelled lines, as many as a pipe takes at once: ranks that share it mix no lines."""
    piece = ""
    for line in text.splitlines():
        labelled_line = f"{label}{line}\n"
        if len((piece + labelled_line).encode(errors="replace")) > _AT_ONCE and piece:
            yield piece
            piece = ""
        piece += labelled_line
    yield piece
