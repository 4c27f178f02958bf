"""Tables: rich's on a terminal, plain columns elsewhere, and nothing cut off in either."""

from __future__ import annotations

import io
import sys

import pytest

from graphmend_bc.reporting.table import print_table

HEADER = ["mended by", "where"]
ROWS = [["where", "/a/very/long/path/" + "x" * 90 + ".py:12 in [f]"], ["defer", "g.py:3 in g"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_columns_are_aligned_and_never_wrap() -> None:
    out = io.StringIO()
    print_table(HEADER, ROWS, out)
    assert out.getvalue().splitlines() == [
        "mended by  where",
        f"where      {ROWS[0][1]}",
        "defer      g.py:3 in g",
    ]


def test_terminal_shows_every_character() -> None:
    pytest.importorskip("rich")
    out = Terminal()
    print_table(HEADER, ROWS, out)
    shown = "".join(character for character in out.getvalue() if character.isascii())
    assert ROWS[0][1].replace(" ", "") in "".join(shown.split())


def test_terminal_without_rich_gets_plain_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    out = Terminal()
    print_table(HEADER, ROWS, out)
    assert out.getvalue().splitlines()[2] == "defer      g.py:3 in g"


def test_empty_table_prints_nothing() -> None:
    out = io.StringIO()
    print_table(HEADER, [], out)
    assert out.getvalue() == ""
