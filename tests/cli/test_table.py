"""Tables: rich's on a terminal, plain columns elsewhere, and nothing cut off in either."""

from __future__ import annotations

import io
import re
import sys

import pytest

from graphmend_bc.reporting.table import Table

HEADER = ["mended by", "where"]
ROWS = [["where", "/a/very/long/path/" + "x" * 90 + ".py:12 in [f]"], ["defer", "g.py:3 in g"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_columns_are_aligned_and_never_wrap() -> None:
    out = io.StringIO()
    Table(HEADER, ROWS).print(out)
    assert out.getvalue().splitlines() == [
        "mended by  where",
        f"where      {ROWS[0][1]}",
        "defer      g.py:3 in g",
    ]


def test_terminal_shows_every_character() -> None:
    pytest.importorskip("rich")
    out = Terminal()
    Table(HEADER, ROWS).print(out)
    shown = "".join(character for character in out.getvalue() if character.isascii())
    assert ROWS[0][1].replace(" ", "") in "".join(shown.split())


def test_terminal_without_rich_gets_plain_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    out = Terminal()
    Table(HEADER, ROWS).print(out)
    assert out.getvalue().splitlines()[2] == "defer      g.py:3 in g"


def test_empty_table_prints_nothing() -> None:
    out = io.StringIO()
    Table(HEADER, []).print(out)
    assert out.getvalue() == ""


def test_a_terminal_without_colour_gets_no_codes_of_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    out = Terminal()
    Table(HEADER, ROWS).print(out)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", out.getvalue())


def test_text_has_no_codes_even_if_colour_is_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    Table(HEADER, ROWS).print(out)
    assert "\x1b" not in out.getvalue()
    assert out.getvalue() == f"{Table(HEADER, ROWS)}\n"


def test_numbers_to_the_right() -> None:
    assert str(
        Table(["n", "of"], [["1", "a"], ["10", "b"]], right=frozenset({0}))
    ).splitlines() == [
        " n  of",
        " 1  a",
        "10  b",
    ]
