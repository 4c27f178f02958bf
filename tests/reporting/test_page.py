"""The report as a page."""

from __future__ import annotations

import html
from html.parser import HTMLParser
from pathlib import Path
from types import CodeType

import pytest

from graphmend_bc.reporting.outcomes import Outcome
from graphmend_bc.reporting.page import excerpt, page_of, rows_of
from graphmend_bc.reporting.report import Compiled, Decline, Mend, Report
from graphmend_bc.runtime import Site

HOSTILE = "<script>alert('x')</script>"


def site_in(filename: str, line: int, offset: int = 0, name: str = "f") -> Site:
    code: CodeType = compile("pass", filename, "exec").replace(co_name=name, co_qualname=name)
    return Site.of(code, "CALL", offset, line)


class Page(HTMLParser):
    """What a browser would make of a page, as far as tests ask."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[dict[str, str | None]] = []
        self.scripts = 0
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.scripts += tag == "script"
        self.ids += [known["id"] or ""] if "id" in known else []
        if tag == "details":
            self.rows.append(known)
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text("".join(f"line_{n} = {n} < 3  # & more\n" for n in range(1, 10)))
    return str(path)


def test_one_row_for_what_belongs_to_one_line(source: str) -> None:
    first, second = site_in(source, 5), site_in(source, 5, offset=8)
    report = Report(
        mends=[Mend("capture", first, "Dynamic shape operator"), Mend("where", second)],
        speculations=[
            Outcome(second, calls=8, failed_checks=3, respecialised=1, rerun_ns=2_000_000)
        ],
    )
    (row,) = rows_of(report)
    assert (row.how, row.is_whole, row.breaks) == ("capture, where", True, "Dynamic shape operator")
    assert (row.failed_checks, row.calls, row.lost_ns) == (3, 8, 2_000_000)
    assert [(line.number, line.is_site) for line in row.source] == [
        *((n, False) for n in (2, 3, 4)),
        (5, True),
        *((n, False) for n in (6, 7, 8)),
    ]


def test_breaks_that_are_left_come_first_and_are_open(source: str) -> None:
    report = Report(
        mends=[Mend("where", site_in(source, 2))],
        declines=[
            Decline("arm-mutates-tensor", "It is written.", ("Do not.",), site_in(source, 7))
        ],
        compiled=Compiled(frames=2, graphs=3, breaks=1),
    )
    page = Page(page_of(report))
    assert [(row["data-kind"], "open" in row) for row in page.rows] == [
        ("declined", True),
        ("mended", False),
    ]
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))


def test_text_of_the_program_is_escaped() -> None:
    report = Report(
        declines=[
            Decline(HOSTILE, HOSTILE, (HOSTILE,), site_in(HOSTILE, 3, name=HOSTILE), HOSTILE)
        ],
        mends=[Mend(HOSTILE, site_in('" onclick="x', 1), passed_over=(HOSTILE,))],
    )
    text = page_of(report)
    page = Page(text)
    assert page.scripts == 1
    assert HOSTILE not in text
    assert all("onclick" not in row for row in page.rows)


@pytest.mark.parametrize("qualifier", ["", "Net.", "make.<locals>."])
def test_what_goes_on_after_a_break_has_the_name_of_its_function(qualifier: str) -> None:
    name = f"{qualifier}torch_dynamo_resume_in_f_at_7"
    report = Report(mends=[Mend("where", site_in("m.py", 9, name=name))])
    wanted = f"{qualifier}f, after the break in line 7"
    assert html.escape(wanted) in page_of(report)
    assert str(report.mends[0]) == f"where      m.py:9 in {wanted}"
    assert "torch_dynamo" not in page_of(report) + str(report)
    assert report.as_dict()["mends"][0]["site"]["function"] == wanted


def test_nothing_found() -> None:
    assert "Nothing was mended, and no break was left." in page_of(Report())


@pytest.mark.parametrize("line", [0, 1, 9, 99])
def test_excerpt_at_the_ends_of_a_file(source: str, line: int) -> None:
    found = [one.number for one in excerpt(source, line)]
    assert found == {0: [], 1: [1, 2, 3, 4], 9: [6, 7, 8, 9], 99: []}[line]
