"""The pytest plugin: tests run with mending on, and the summary says what came of it.

    pytest --graphmend                    all tests
    @pytest.mark.graphmend                this one, also without the option
    @pytest.mark.no_graphmend             not this one

Torch is imported when a test asks for it, not when pytest starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import graphmend_bc

if TYPE_CHECKING:
    from graphmend_bc import Report


class _Result(NamedTuple):
    """What came of a test; plain values, which pytest-xdist can send."""

    name: str
    compiled: int
    mended: int
    left: int
    speculated: int
    failed: int
    declines: list[str]


_RESULTS = pytest.StashKey[list[_Result]]()
_WORKER_KEY = "graphmend_bc"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--graphmend``."""
    parser.getgroup("graphmend_bc").addoption(
        "--graphmend", action="store_true", help="mend the graph breaks of torch.compile in tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marks known."""
    config.addinivalue_line("markers", "graphmend: mend graph breaks in this test")
    config.addinivalue_line("markers", "no_graphmend: mend no graph breaks in this test")
    config.stash[_RESULTS] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Switches mending on for a test, its fixtures included."""
    wanted = item.config.getoption("--graphmend") or item.get_closest_marker("graphmend")
    if not wanted or item.get_closest_marker("no_graphmend"):
        return (yield)
    from graphmend_bc.session import watching

    reports: list[Report] = []
    with graphmend_bc.enabled(), watching(reports.append):
        done = yield
        reports.append(graphmend_bc.report())
        item.config.stash[_RESULTS].append(_result(item.nodeid, reports))
        return done


def _result(name: str, reports: list[Report]) -> _Result:
    compiled = [report.compiled for report in reports]
    return _Result(
        name=name,
        compiled=int(any(done.frames for done in compiled)),
        mended=sum(len(report.mends) for report in reports),
        left=sum(done.breaks + done.skipped for done in compiled),
        speculated=sum(report.speculated.calls for report in reports),
        failed=sum(report.speculated.failed for report in reports),
        declines=[f"{d.reason} at {d.site}" for report in reports for d in report.declines],
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of pytest-xdist, sends what came of its tests."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        results = session.config.stash[_RESULTS]
        output[_WORKER_KEY] = [tuple(result) for result in results]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receives it."""
    sent = getattr(node, "workeroutput", {}).get(_WORKER_KEY, [])
    node.config.stash[_RESULTS].extend(_Result(*result) for result in sent)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says what was mended, and in which tests something was declined."""
    found = config.stash[_RESULTS]
    results = sorted(found)
    if not results:
        return
    from graphmend_bc.reporting.outcomes import Speculated
    from graphmend_bc.session import switched_off_by

    terminalreporter.section("graphmend_bc")
    if by := switched_off_by():
        terminalreporter.line(f"{by}, so the tests ran without mending.")
        return
    compiled, mended, left, speculated, failed = (
        sum(counts) for counts in zip(*(result[1:-1] for result in results), strict=True)
    )
    terminalreporter.line(
        f"{compiled} of {len(results)} tests compiled something: {mended} sites mended, "
        f"{left} breaks left."
    )
    if speculated:
        terminalreporter.line(f"{Speculated(speculated, failed)}.".capitalize())
    for result in results:
        for decline in result.declines:
            terminalreporter.line(f"{result.name}: {decline}")
