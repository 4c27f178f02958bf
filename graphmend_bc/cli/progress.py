"""A line on the terminal that says what takes long."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from types import CodeType

from graphmend_bc.cli.ranks import rank
from graphmend_bc.dynamo.frames.generated_code import user_name
from graphmend_bc.engine.compile_time import LISTENERS

_DELAY = 2.0
"""Seconds before the line appears."""

_ROOM = 4
"""Lines that are kept free below the cursor: a program may have progress bars of its own there."""

_MAKE_ROOM = "\x1bD" * _ROOM + "\x1bM" * _ROOM
"""Down and up again; the terminal scrolls if it must, and the cursor keeps its place."""

_INSERT, _CLEAR, _DELETE = "\x1b[L", "\x1b[2K", "\x1b[M"


class Progress:
    """Shows a line below the one where the program writes, while something takes long.

    The cursor is put back to where the program left it, so what the program writes goes on there.
    Lines of the program below it are moved down for the while, and not written over.
    """

    def __init__(self) -> None:
        self._terminal = _terminal()
        self._pid = os.getpid()

    def watch_compilations(self) -> None:
        """Say which function is compiled, until the process ends."""
        if self._terminal is not None:
            LISTENERS.add(self._compiling)

    def _compiling(self, code: CodeType) -> Callable[[], object]:
        where = f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
        return self._begin(f"compiling {user_name(code)} ({where})")

    @contextlib.contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Say what is done in this block.

        Args:
            what: such as "comparing f".
        """
        end = self._begin(what)
        try:
            yield
        finally:
            end()

    def _begin(self, what: str) -> Callable[[], object]:
        if self._terminal is None or os.getpid() != self._pid:
            return lambda: None
        ended = Event()
        text = "".join(c if c.isascii() and c.isprintable() else "?" for c in what)
        thread = Thread(target=self._show, args=(self._terminal, text, ended), daemon=True)
        thread.start()

        def end() -> None:
            ended.set()
            thread.join()  # the program may write next

        return end

    def _show(self, terminal: int, what: str, ended: Event) -> None:
        begun = time.monotonic()
        if ended.wait(_DELAY):
            return
        opening, before = _MAKE_ROOM, _INSERT
        with contextlib.suppress(OSError):  # the terminal is gone
            while True:
                if os.tcgetpgrp(terminal) == os.getpgrp():  # not in the background
                    text = f"graphmend_bc: {what}, {time.monotonic() - begun:.0f} s"
                    columns = os.get_terminal_size(terminal).columns
                    _write_below(terminal, opening, before + text[: columns - 1])
                    opening, before = "", _CLEAR
                if ended.wait(1.0):
                    break
            if not opening:
                _write_below(terminal, opening, _DELETE)


def _write_below(terminal: int, opening: str, text: str) -> None:
    """Write at the beginning of the line below, in one piece, and put the cursor back."""
    os.write(terminal, f"{opening}\x1b7\x1b[1B\r{text}\x1b8".encode("ascii"))


def _terminal() -> int | None:
    """A descriptor of the terminal that standard error goes to; None if it goes elsewhere.

    The ranks of a program share their terminal, so none of them has it.
    """
    is_plain = os.name != "posix" or os.environ.get("TERM", "dumb") == "dumb"
    if is_plain or rank() is not None or sys.stderr is None or not sys.stderr.isatty():
        return None
    return os.dup(sys.stderr.fileno())
