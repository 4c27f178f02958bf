"""Hiding what a program writes while its calls are made again."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden_output() -> Iterator[None]:
    """Show nothing that is written to standard output and error, from Python or from below it.

    Handlers of `logging` hold the stream that they were made with, so the descriptors are
    redirected as well.
    """
    with (
        contextlib.ExitStack() as ending,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        open(os.devnull, "wb") as nowhere,
    ):
        for stream, number in ((sys.__stdout__, 1), (sys.__stderr__, 2)):
            if stream is None or not _is_open(number):
                continue
            stream.flush()
            kept = os.dup(number)
            os.dup2(nowhere.fileno(), number)
            ending.callback(_restore, kept, number, stream)
        yield


def _restore(kept: int, number: int, stream: io.TextIOBase) -> None:
    stream.flush()
    os.dup2(kept, number)
    os.close(kept)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
