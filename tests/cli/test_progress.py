"""The line that says what takes long: on a terminal, beside what the program writes there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.processes import LIMIT, python

ROWS, COLUMNS = 8, 70


@dataclass
class Screen:
    """What a terminal shows, as far as it is asked to by what the tests write to it."""

    lines: list[str] = field(default_factory=lambda: [""] * ROWS)
    above: list[str] = field(default_factory=list)
    row: int = 0
    column: int = 0
    saved: tuple[int, int] = (0, 0)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def feed(self, text: str) -> None:
        with self.lock:
            for part in re.findall(r"\x1b\[[\d;]*[A-Za-z]|\x1b.|[\r\n]|[^\x1b\r\n]+", text):
                self._take(part)

    def _take(self, part: str) -> None:
        if part == "\r":
            self.column = 0
        elif part in ("\n", "\x1bD"):
            self._down()
        elif part == "\x1bM":
            assert self.row > 0
            self.row -= 1
        elif part == "\x1b7":
            self.saved = self.row, self.column
        elif part == "\x1b8":
            self.row, self.column = self.saved
        elif part == "\x1b[1B":
            self.row = min(self.row + 1, ROWS - 1)
        elif part == "\x1b[1A":
            self.row -= 1
        elif part == "\x1b[2K":
            self.lines[self.row] = ""
        elif part == "\x1b[L":
            self.lines.insert(self.row, "")
            assert self.lines.pop() == "", "a line was lost"
        elif part == "\x1b[M":
            del self.lines[self.row]
            self.lines.append("")
        elif not re.fullmatch(r"\x1b\[[\d;]*m", part):  # colours
            assert "\x1b" not in part, part
            self._put(part)

    def _down(self) -> None:
        if self.row < ROWS - 1:
            self.row += 1
            return
        self.above.append(self.lines.pop(0))
        self.lines.append("")

    def _put(self, text: str) -> None:
        for character in text:
            if self.column == COLUMNS:
                self.column = 0
                self._down()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def __str__(self) -> str:
        with self.lock:
            shown = [line.rstrip() for line in [*self.above, *self.lines]]
        return "\n".join(shown).rstrip("\n")


@contextmanager
def on_terminal(*arguments: str, cwd: Path) -> Iterator[tuple[Screen, subprocess.Popen[bytes]]]:
    """Python with a terminal for its output; the screen is that of all it has written so far."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("4H", ROWS, COLUMNS, 0, 0))
    screen = Screen()

    def read() -> None:
        try:
            while data := os.read(ours, 65536):
                screen.feed(data.decode())
        except OSError:  # the other end is closed
            pass

    started = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, "TERM": "xterm"},
        # The terminal is that of the session, as in a shell.
        preexec_fn=lambda: (os.setsid(), fcntl.ioctl(0, termios.TIOCSCTTY, 0), None)[-1],
    )
    os.close(its)
    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield screen, started
        started.wait(LIMIT)
    finally:
        started.kill()
        started.wait()
        reader.join()
        os.close(ours)


def wait_for(screen: Screen, text: str, started: subprocess.Popen[bytes]) -> str:
    """The screen as soon as it shows a text."""
    while started.poll() is None:
        if text in (shown := str(screen)):
            return shown
        time.sleep(0.1)
    raise AssertionError(f"{text!r} is not in\n{screen}")


SLOW = """
import sys, threading, time
import torch

def slow(graph, _):
    {meanwhile}
    time.sleep(3.5)
    return graph.forward

@torch.compile(backend=slow)
def step(x):
    return x + 1

for number in range({lines}):
    print("line", number)
print("Loading... ", end="", flush=True)
step(torch.ones(2))
print("done")
"""

WHILE_COMPILING = r"graphmend_bc: compiling step \(program\.py:10\), \d s"


@pytest.mark.slow
@pytest.mark.parametrize("lines", [0, 5, 20])
def test_the_line_comes_and_goes(lines: int, tmp_path: Path) -> None:
    """The program's own line goes on where it was, at the top of the screen and at its end."""
    (tmp_path / "program.py").write_text(SLOW.format(lines=lines, meanwhile=""))
    with on_terminal("-m", "graphmend_bc", "run", "program.py", cwd=tmp_path) as (screen, started):
        shown = wait_for(screen, "graphmend_bc: compiling", started)
        own = [*(f"line {number}" for number in range(lines)), "Loading..."]
        *before, line = shown.splitlines()
        assert before == own
        assert re.fullmatch(WHILE_COMPILING, line)
    assert started.returncode == 0
    *before, done = str(screen).partition("\ngraphmend_bc: 0 mended")[0].splitlines()
    assert [*before, done] == [*own[:-1], "Loading... done"]


@pytest.mark.slow
def test_what_other_threads_write_meanwhile_is_not_lost(tmp_path: Path) -> None:
    ticking = (
        "tick = lambda n: print('tick', n, flush=True)\n"
        "    [threading.Timer(1.5 + n / 2, tick, [n]).start() for n in range(4)]"
    )
    (tmp_path / "program.py").write_text(SLOW.format(lines=20, meanwhile=ticking))
    with on_terminal("-m", "graphmend_bc", "run", "program.py", cwd=tmp_path) as (screen, started):
        wait_for(screen, "graphmend_bc: compiling", started)
    assert started.returncode == 0
    text = str(screen)
    assert all(f"line {number}\n" in text for number in range(20))
    assert "Loading... tick 0" in text
    assert all(f"tick {number}" in text for number in range(4))
    assert "\ndone" in text


BARS = """
print("outer 50%\\ninner 10%\\x1b[1A", end="", flush=True)
step(torch.ones(2))
print("\\x1b[1B\\rinner 99%")
"""


@pytest.mark.slow
def test_a_bar_below_the_cursor_stays(tmp_path: Path) -> None:
    program = SLOW.format(lines=20, meanwhile="").partition("print('Loading")[0]
    program = program.partition('print("Loading')[0] + BARS
    (tmp_path / "program.py").write_text(program)
    with on_terminal("-m", "graphmend_bc", "run", "program.py", cwd=tmp_path) as (screen, started):
        shown = wait_for(screen, "graphmend_bc: compiling", started).splitlines()
        assert [shown[-3], shown[-1]] == ["outer 50%", "inner 10%"]
    assert started.returncode == 0
    assert "line 19\nouter 50%\ninner 99%\ngraphmend_bc: 0 mended" in str(screen)


@pytest.mark.slow
def test_elsewhere_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SLOW.format(lines=0, meanwhile=""))
    done = python("-m", "graphmend_bc", "run", "program.py", cwd=tmp_path)
    assert done.stdout == "Loading... done\n"
    assert "\x1b" not in done.stderr
    assert "compiling step" not in done.stderr


@pytest.mark.parametrize("given", [{"TERM": "dumb"}, {"RANK": "0", "WORLD_SIZE": "2"}])
def test_a_plain_or_shared_terminal_has_none(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphmend_bc.cli import progress

    class Terminal:
        def isatty(self) -> bool:
            return True

        def fileno(self) -> int:
            return 1

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    terminal = progress._terminal()
    assert terminal is not None
    os.close(terminal)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert progress._terminal() is None


@pytest.mark.slow
def test_a_long_name_is_cut_off(tmp_path: Path) -> None:
    program = SLOW.format(lines=20, meanwhile="").replace("step", "step_" * 30)
    (tmp_path / "program.py").write_text(program)
    with on_terminal("-m", "graphmend_bc", "run", "program.py", cwd=tmp_path) as (screen, started):
        shown = wait_for(screen, "graphmend_bc: compiling", started).splitlines()
        assert (shown[-2], len(shown[-1])) == ("Loading...", COLUMNS - 1)
    assert started.returncode == 0
    assert "line 19\nLoading... done\ngraphmend_bc: 0 mended" in str(screen)


@pytest.mark.slow
def test_explain_says_what_it_compares(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SLOW.format(lines=3, meanwhile=""))
    command = ("-m", "graphmend_bc", "explain", "--seconds=0", "program.py")
    with on_terminal(*command, cwd=tmp_path) as (screen, started):
        shown = wait_for(screen, "graphmend_bc: comparing", started).splitlines()
        assert shown[-3:-1] == ["Loading... done", ""]
        assert re.fullmatch(r"graphmend_bc: comparing step, 1 of 1, \d s", shown[-1])
    assert started.returncode == 0
    assert "comparing" not in str(screen)
