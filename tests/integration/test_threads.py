"""One compiled function called by many threads at once, wrong speculations and all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.reporting.speculation_stats import Speculation, Tally
from tests.releases import STOCK_RAISES, executed, since

UP = torch.tensor([1.0, 2.0, 3.0])
THREADS, CALLS = 8, 60


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def branches(x: torch.Tensor) -> object:
    y = x + 1
    if y.sum() < 0:
        return str(y), 2
    if torch.isinf(y).any():
        y = y.clamp(max=1)
    if y.max() > 20:
        raise ValueError(f"large: {y}")
    return y * 2


def each_calls(function: Callable[[torch.Tensor], object]) -> list[list[str]]:
    """What each thread saw."""
    together = Barrier(THREADS)

    def one(number: int) -> list[str]:
        together.wait()
        return [_told(function, UP * (number + 1) * _sign(number + i)) for i in range(CALLS)]

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def _sign(number: int) -> int:
    return -1 if number % 5 == 0 else 1


def _told(function: Callable[[torch.Tensor], Any], x: torch.Tensor) -> str:
    try:
        return repr(function(x))
    except ValueError as error:
        return repr(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_threads_see_what_they_see_in_eager(backend: str) -> None:
    if backend == "aot_eager" and not since(2, 13):
        pytest.skip(STOCK_RAISES)
    with gm.enabled():
        found = each_calls(torch.compile(branches, backend=backend))
    assert found == each_calls(branches)


def test_speculations_change_while_others_call() -> None:
    """A cache entry that is given up must not be freed under a thread that looks at it."""
    with gm.config.patch(failed_check_limit=1, flip_limit=100), gm.enabled():
        found = each_calls(torch.compile(branches, backend="eager"))
    assert found == each_calls(branches)


def test_writes_of_other_threads_are_not_rolled_back() -> None:
    count = torch.zeros(1)

    def f(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        if x.sum() < 0:
            raise ValueError("negative")
        return x + 1

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP)
        count.zero_()
        each_calls(lambda x: compiled(x.abs()))
    assert count.item() == THREADS * CALLS


def while_asking(work: Callable[[int], object], ask: Callable[[], object]) -> int:
    """Ask again and again until all threads have done their work; how often that was."""
    asked = 0
    with ThreadPoolExecutor(THREADS) as pool:
        futures = [pool.submit(work, number) for number in range(THREADS)]
        while not all(future.done() for future in futures):
            ask()
            asked += 1
        for future in futures:
            future.result()
    return asked


def generated(number: int) -> Callable[[torch.Tensor], object]:
    module: dict[str, Any] = {"branches": branches}
    source = (
        f"def f(x):\n    y = x + {number}\n    if y.sum() > 0:\n        return y, 1\n    return y"
    )
    executed(source, f"<{number}>", module)
    return module["f"]  # type: ignore[no-any-return]


def test_reports_while_graphs_are_compiled_and_run() -> None:
    def work(number: int) -> None:
        for i in range(3):
            function = generated(10 * number + i)
            compiled = torch.compile(function, backend="eager")
            for x in (UP, -99 * UP, UP):
                assert repr(compiled(x)) == repr(function(x))

    with gm.config.patch(failed_check_limit=1), gm.enabled():
        assert while_asking(work, gm.report) > 1
        report = gm.report()
    assert len({(mend.site, mend.strategy) for mend in report.mends}) == len(report.mends)
    assert len({mend.site for mend in report.mends}) == 3 * THREADS


def test_tables_that_threads_write_are_whole() -> None:
    functions = [generated(number) for number in range(THREADS)]

    def work(number: int) -> None:
        code = functions[number].__code__
        for _ in range(CALLS):
            state.leaves_call(functions[0].__code__)
            for offset in (0, 2):
                tally = Tally((Speculation(site_of(code, offset), 0, True, False),), calls=1)
                state.remember_tally(code, tally)
                state.graph_failed(code, tally, [0])
        for made in [exec(f"def g{number}_{i}(): pass", left) for i in range(CALLS)]:
            assert made is None
        for i in range(CALLS):
            function = left[f"g{number}_{i}"]
            made = function.__code__
            state.remember_tally(made, Tally((Speculation(site_of(made, 0), 0, True, True),)))

    left: dict[str, Any] = {}
    with gm.enabled():
        state = session._session.state
        assert while_asking(work, gm.report) > 1
        speculations = {str(outcome.site): outcome for outcome in gm.report().speculations}
        assert state.eager_calls.total() == THREADS * CALLS
    assert len(speculations) == THREADS * (2 + CALLS) - 2 * THREADS + len(
        {str(site_of(function.__code__, offset)) for function in functions for offset in (0, 2)}
    )
    assert sum(outcome.failed_checks for outcome in gm.report().speculations) == 2 * THREADS * CALLS


def test_handlers_may_ask_while_the_tables_are_changed() -> None:
    """A signal's handler, or an object that is collected, runs in the middle of anything."""
    with gm.enabled():
        state = session._session.state
        with state.lock:
            assert gm.report().mends == []
            gm.reset()
