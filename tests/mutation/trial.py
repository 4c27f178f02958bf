"""One mutant under the tests that reach its line, in a process of its own."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

LIMIT = 300
"""Seconds after which the tests of a mutant are ended; one that runs for ever is noticed, too."""


def first_failure(
    module: str, name: str, source: str, tests: Sequence[str], limit: float = LIMIT
) -> str:
    """Which test notices that a function, or a set, is another.

    The process is a fork of this one, which should have imported all that the tests import.

    Args:
        module: its full name.
        name: of the function or the set in it, qualified.
        source: of the whole module, with the change.
        tests: names of tests as pytest takes them, in the order in which they run.
        limit: seconds after which they are ended.

    Returns:
        The name of the first test that fails, "time" if they take too long, or "" if all pass.

    Raises:
        RuntimeError: the process ended without an answer.
    """
    context = get_context("fork")
    answers: Any = context.SimpleQueue()
    child = context.Process(target=_run, args=(module, name, source, tests, answers))
    child.start()
    deadline = time.monotonic() + limit
    while child.is_alive() and answers.empty() and time.monotonic() < deadline:
        child.join(0.02)
    late = child.is_alive() and answers.empty()
    answer = "time" if late else None if answers.empty() else str(answers.get())
    if child.is_alive():  # what it has started may go on
        assert child.pid is not None
        os.killpg(child.pid, signal.SIGKILL)
        child.join()
    if answer is None:
        raise RuntimeError(f"{module}: {name}: the process ended with {child.exitcode}.")
    return answer


def _run(module: str, name: str, source: str, tests: Sequence[str], answers: Any) -> None:
    os.setpgid(0, 0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    put_in(sys.modules[module], name, source)
    os.dup2(nowhere, 2)
    noted = _Noted()
    options = ["-x", "-q", "-p", "no:cacheprovider"]
    status = pytest.main([*options, *tests], plugins=[noted])
    answers.put(noted.first or ("" if status == 0 else f"exit status {int(status)}"))


class _Noted:
    """A plugin of pytest that notes the first test which fails."""

    first = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid


def put_in(module: ModuleType, name: str, source: str) -> None:
    """Give a function of a module the code that it has in another source; a set, its elements.

    Whoever has imported the function has the same object, and sees the new code; so have the functions
    that it has made already. A set is replaced in all modules that have it.

    Args:
        module: imported already.
        name: of the function or the set, qualified.
        source: of the whole module.
    """
    assert module.__file__ is not None
    code = compile(source, module.__file__, "exec", dont_inherit=True)
    old: Any = module
    for part in name.split("."):
        old = inspect.getattr_static(old, part)
    if isinstance(old, frozenset):
        space: dict[str, Any] = {"__name__": module.__name__}
        exec(code, space)
        for holder in [m for m in sys.modules.values() if getattr(m, name, None) is old]:
            setattr(holder, name, space[name])
        return
    function = inspect.unwrap(getattr(old, "fget", None) or getattr(old, "__func__", None) or old)
    assert isinstance(function, FunctionType), f"{name} is no function."
    for part in name.split("."):
        code = next(inner for inner in _inner(code) if inner.co_name == part)
    made = list(_inner(function.__code__))
    function.__code__ = code
    for now in _inner(code):
        for was in made:
            if (was.co_name, was.co_firstlineno) == (now.co_name, now.co_firstlineno):
                _replace(was, now)


def _replace(was: CodeType, now: CodeType) -> None:
    for holder in gc.get_referrers(was):
        if isinstance(holder, FunctionType):
            holder.__code__ = now


def _inner(code: CodeType) -> Iterator[CodeType]:
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def preload(modules: Sequence[str]) -> None:
    """Import what all tests of mutants need, once."""
    for module in ("torch._dynamo", "hypothesis", "tests.oracle", *modules):
        importlib.import_module(module)
