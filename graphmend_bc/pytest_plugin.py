"""The pytest plugin: tests run with mending on, and the summary says what came of it.

    pytest --graphmend                    all tests
    @pytest.mark.graphmend                this one, also without the option
    @pytest.mark.no_graphmend             not this one
    pytest --graphmend-json results.json  also writes what came of each test

Torch is imported when a test asks for it, not when pytest starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
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


SCHEMA = 1
"""Version of the JSON; it changes when a name in it does, or what a number counts."""

_RESULTS = pytest.StashKey[list[_Result]]()
_LOST = pytest.StashKey[list[str]]()
_WORKER_KEY = "graphmend_bc"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--graphmend`` and ``--graphmend-json``."""
    group = parser.getgroup("graphmend_bc")
    group.addoption(
        "--graphmend", action="store_true", help="mend the graph breaks of torch.compile in tests"
    )
    group.addoption(
        "--graphmend-json", metavar="JSON", help="write what was mended in each test to this file"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Makes the marks known."""
    config.addinivalue_line("markers", "graphmend: mend graph breaks in this test")
    config.addinivalue_line("markers", "no_graphmend: mend no graph breaks in this test")
    config.stash[_RESULTS], config.stash[_LOST] = [], []


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
    """Writes what came of the tests; a worker of pytest-xdist sends it to the process that does."""
    config = session.config
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output[_WORKER_KEY] = [tuple(result) for result in config.stash[_RESULTS]]
    elif path := config.getoption("--graphmend-json"):
        written = json.dumps(_as_dict(config), indent=2)
        (config.invocation_params.dir / path).write_text(written, encoding="utf-8")


def _as_dict(config: pytest.Config) -> dict[str, Any]:
    from graphmend_bc.reporting.provenance import Provenance

    results = config.stash[_RESULTS]
    return {
        "schema": SCHEMA,
        "provenance": asdict(Provenance.here()),
        "tests": [result._asdict() for result in sorted(results)],
        "lost_workers": config.stash[_LOST],
    }


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receives it; a worker that crashed has sent nothing."""
    sent = getattr(node, "workeroutput", {}).get(_WORKER_KEY)
    if sent is None:
        node.config.stash[_LOST].append(node.gateway.id)
    else:
        node.config.stash[_RESULTS].extend(_Result(*result) for result in sent)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says what was mended, and in which tests something was declined."""
    found = config.stash[_RESULTS]
    results, lost = sorted(found), config.stash[_LOST]
    if not results and not (lost and config.getoption("--graphmend")):
        return
    from graphmend_bc.reporting.counts import many
    from graphmend_bc.reporting.outcomes import Speculated
    from graphmend_bc.reporting.references import references
    from graphmend_bc.session import switched_off_by

    terminalreporter.section("graphmend_bc")
    if lost:
        terminalreporter.line(
            f"{', '.join(lost)} crashed; what the tests that ran there came to is not counted."
        )
    if not results:
        return
    if by := switched_off_by():
        terminalreporter.line(f"{by}, so the tests ran without mending.")
        return
    compiled, mended, left, speculated, failed = (
        sum(counts) for counts in zip(*(result[1:-1] for result in results), strict=True)
    )
    terminalreporter.line(
        f"{compiled} of {many(len(results), 'test')} compiled something: "
        f"{many(mended, 'site')} mended, {many(left, 'break')} left."
    )
    if speculated:
        terminalreporter.line(f"{Speculated(speculated, failed)}.".capitalize())
    declined = [(result.name, decline) for result in results for decline in result.declines]
    for name, decline in declined:
        terminalreporter.line(f"{name}: {decline}")
    for line in references(decline.partition(" at ")[0] for _, decline in declined):
        terminalreporter.line(line)
