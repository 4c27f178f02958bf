"""The pytest plugin of the child: chosen tests of a library, in one of the arms, a row for each.

    python -m pytest -p library_test_arm --arm mended --chosen chosen.json --rows rows.jsonl

What is compiled is compiled by `graphmend_bc.attach`, with mending or without: each outermost call of
a function of the library from a test, or (`--compiled tests`) the test itself.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import random
import signal
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numpy
import pytest
import torch
from bytecode import Bytecode, Instr
from digests_of_variables import digests
from libs import add_packages

import graphmend_bc
from graphmend_bc.code import facts

TOO_LONG = 3
"""Exit status after a test that took too long: what it left halfway is not to be gone on with."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("library suites")
    group.addoption("--arm", choices=("list", "eager", "stock", "mended"))
    group.addoption("--chosen", type=Path, help="JSON: names of the tests that are run")
    group.addoption("--rows", type=Path, help="file that rows are added to")
    group.addoption("--functions-of", default="", help="packages whose functions are compiled")
    group.addoption("--beside", type=Path, help="folder of what the library depends on")
    group.addoption("--compiled", choices=("library", "tests"), default="library")
    group.addoption("--backend", default="eager")
    group.addoption("--limit", type=int, default=60, help="seconds of a processor")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Files named conftest.py import the library."""
    add_packages(early_config.known_args_namespace.beside)


def pytest_configure(config: pytest.Config) -> None:
    torch.set_num_threads(1)
    config.pluginmanager.register(_Arm(config))


class _Arm:
    """One arm of one process."""

    def __init__(self, config: pytest.Config) -> None:
        options = config.option
        self.arm: str = options.arm
        self.tests_too = options.compiled == "tests"
        self.backend: str = options.backend
        self.limit: int = options.limit
        self.packages = [name for name in options.functions_of.split(",") if name]
        self.chosen = options.chosen and json.loads(options.chosen.read_text())
        self.rows: Path = options.rows
        self.row: dict[str, Any] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.arm == "list":
            self._write([item.nodeid for item in items])
            items.clear()
            return
        place = {name: number for number, name in enumerate(self.chosen)}
        items[:] = sorted(
            (item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid]
        )

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.row = {"test": item.nodeid, "outcome": "passed"}
        self._write({"begun": item.nodeid})
        signal.signal(signal.SIGPROF, self._give_up)
        signal.setitimer(signal.ITIMER_PROF, self.limit)
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        _seed(item.nodeid)
        mending: Any = contextlib.nullcontext()
        if self.arm == "mended":  # whatever earlier processes found out
            mending = graphmend_bc.enabled(cache=False)
        with mending, contextlib.ExitStack() as attached:
            for package in self.packages if self.arm != "eager" and not self.tests_too else ():
                target = f"{package}.*"
                attached.enter_context(
                    graphmend_bc.attach(target, where=_is_of_library, backend=self.backend)
                )
            done = yield
            if self.arm == "mended":
                self._note_mends()
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.row["graphs"] = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        self._write(self.row)
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        test = _function_of(getattr(item, "function", None))
        if test is None or (self.tests_too and self.arm == "eager"):
            return (yield)
        if self.tests_too:
            with graphmend_bc.attach(test, backend=self.backend):
                return (yield)
        code = test.__code__
        test.__code__ = _showing_locals(code, self._see)
        try:
            return (yield)
        finally:
            test.__code__ = code

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.passed or self.row["outcome"] == "failed":
            return
        self.row["outcome"] = "failed" if report.failed else "skipped"
        crash = getattr(report.longrepr, "reprcrash", None)
        self.row["why"] = str(crash.message if crash else report.longrepr)[-600:]

    def _see(self, frame: FrameType) -> None:
        self.row["saw"] = digests(frame.f_locals) | {"random": _drawn()}

    def _note_mends(self) -> None:
        report = graphmend_bc.report()
        self.row["mends"] = [f"{mend.strategy} {mend.site}" for mend in report.mends]
        self.row["declines"] = [
            f"{one.reason} {one.site}: {one.explanation}"[:300] for one in report.declines
        ]

    def _give_up(self, number: int, frame: FrameType | None) -> None:
        self._write({**self.row, "outcome": "too long"})
        os._exit(TOO_LONG)

    def _write(self, row: Any) -> None:
        with self.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")


def _is_of_library(code: CodeType) -> bool:
    """Whether a function is not of tests that lie among the library's files."""
    return "/test" not in code.co_filename.removeprefix(os.getcwd())


def _seed(name: str) -> None:
    seed = zlib.crc32(name.encode())
    torch.manual_seed(seed)
    numpy.random.seed(seed)
    random.seed(seed)


def _drawn() -> int:
    """What stands for the state of the generators."""
    states = torch.get_rng_state().tolist(), numpy.random.get_state(), random.getstate()
    return zlib.crc32(repr(states).encode())


def _showing_locals(code: CodeType, see: Callable[[FrameType], None]) -> CodeType:
    """The code of a test that shows its frame before it returns; for tests that are not compiled."""

    def show() -> None:
        see(sys._getframe(1))

    callee = [Instr("PUSH_NULL"), Instr("LOAD_CONST", show)]
    call = callee if facts.NULL_BEFORE_CALLABLE else callee[::-1]
    call += [Instr("PRECALL", 0)] if facts.CALL_NEEDS_PRECALL else []
    call += [Instr("CALL", 0), Instr("POP_TOP")]
    made = Bytecode.from_code(code)
    for place in reversed(range(len(made))):
        if getattr(made[place], "name", "") in ("RETURN_VALUE", "RETURN_CONST"):
            made[place:place] = call
    return made.to_code()


def _function_of(test: Any) -> FunctionType | None:
    """What a test's decorators wrap, unless it is a generator or coroutine."""
    while hasattr(test, "__wrapped__"):
        test = test.__wrapped__
    suspends = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if isinstance(test, FunctionType) and not test.__code__.co_flags & suspends:
        return test
    return None
