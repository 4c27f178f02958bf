"""The pytest plugin: tests run with mending on, and the summary says what came of it.

    pytest --graphmend                    all tests
    @pytest.mark.graphmend                this one, also without the option
    @pytest.mark.no_graphmend             not this one

Torch is imported when a test asks for it, not when pytest starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import graphmend_bc

if TYPE_CHECKING:
    from graphmend_bc import Report

_REPORTS = pytest.StashKey[list[tuple[str, "Report"]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--graphmend``."""
    parser.getgroup("graphmend_bc").addoption(
        "--graphmend", action="store_true", help="mend the graph breaks of torch.compile in tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marks known."""
    config.addinivalue_line("markers", "graphmend: mend graph breaks in this test")
    config.addinivalue_line("markers", "no_graphmend: mend no graph breaks in this test")
    config.stash[_REPORTS] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Switches mending on for a test, its fixtures included."""
    wanted = item.config.getoption("--graphmend") or item.get_closest_marker("graphmend")
    if not wanted or item.get_closest_marker("no_graphmend"):
        return (yield)
    with graphmend_bc.enabled():
        done = yield
        item.config.stash[_REPORTS].append((item.nodeid, graphmend_bc.report()))
        return done


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says what was mended, and in which tests something was declined."""
    reports = config.stash[_REPORTS]
    if not reports:
        return
    compiled = [report for _, report in reports if report.compiled.frames]
    mends = sum(len(report.mends) for report in compiled)
    left = sum(report.compiled.breaks + report.compiled.skipped for report in compiled)
    terminalreporter.section("graphmend_bc")
    terminalreporter.line(
        f"{len(compiled)} of {len(reports)} tests compiled something: {mends} sites mended, "
        f"{left} breaks left."
    )
    speculated = [report.speculated for report in compiled if report.speculated.calls]
    if speculated:
        terminalreporter.line(f"{sum(speculated[1:], speculated[0])}.".capitalize())
    for name, report in reports:
        for decline in report.declines:
            terminalreporter.line(f"{name}: {decline.reason} at {decline.site}")
