"""The extension among the rest of the interpreter: threads, forks, tracers, greenlets, signals.

Needs no torch. `make sanitize` runs this under AddressSanitizer and UndefinedBehaviorSanitizer.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import pytest

from tests.attachment.chain import binary, load

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def clean_slate() -> None:
    """In place of the fixture for all tests, which skips where there is no torch."""


@pytest.fixture
def hooks() -> Iterator[ModuleType]:
    module = load(binary())
    found = module.evaluator()
    yield module
    module.set_chooser(None)
    for function in (work, deeper, numbers):
        with contextlib.suppress(ValueError):
            module.unwatch(function.__code__)
    module.uninstall()
    assert module.evaluator() == found


def work(n: int) -> int:
    total = 0
    for i in range(n):
        total += helper(i)
    return total


def helper(i: int) -> int:
    return i * 2


def deeper(n: int) -> int:
    return 0 if n == 0 else 1 + deeper(n - 1)


def numbers() -> Iterator[int]:
    yield helper(1)
    yield helper(2)


def count(calls: list[str]) -> Callable[[CodeType], Any]:
    """An enter that counts, and does nothing else."""

    def enter(code: CodeType) -> tuple[None, Callable[[Any], None]]:
        calls.append(code.co_name)
        return None, lambda error: None

    return enter


@pytest.mark.slow
def test_installed_and_removed_ten_thousand_times(hooks: ModuleType) -> None:
    calls: list[str] = []
    enter = count(calls)
    things = [work.__code__, enter, hooks]

    def level() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    before = level()
    for _ in range(10_000):
        hooks.watch(work.__code__, enter)
        hooks.install()
        work(1)
        hooks.uninstall()
        hooks.unwatch(work.__code__)
    assert calls == ["work"] * 10_000
    assert level() == before


def test_eight_threads_call_while_the_hooks_come_and_go(hooks: ModuleType) -> None:
    results: list[int] = []
    stop = threading.Event()
    sys.setswitchinterval(1e-5)

    def calls_on() -> None:
        while not stop.is_set():
            results.append(work(10))

    threads = [threading.Thread(target=calls_on) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        for _ in range(150):
            hooks.watch(work.__code__, count([]))
            hooks.install()
            threading.Thread(target=work, args=(3,)).start()
            hooks.uninstall()
            hooks.unwatch(work.__code__)
    finally:
        stop.set()
        sys.setswitchinterval(0.005)
        for thread in threads:
            thread.join()
    assert set(results) == {90}


def test_a_forked_child_goes_on_with_the_hooks(hooks: ModuleType) -> None:
    calls: list[str] = []
    hooks.watch(work.__code__, count(calls))
    hooks.install()

    def inside() -> int:
        return os.fork()

    hooks.watch(inside.__code__, count(calls))
    child = inside()  # the frame that forks is itself watched, and ends in both processes
    if child == 0:
        ok = work(3) == 6 and calls == ["inside", "work"] and hooks.installed()
        hooks.uninstall()
        os._exit(0 if ok and work(3) == 6 and calls == ["inside", "work"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert calls == ["inside"]


def test_a_recursion_too_deep_is_an_error_as_ever(hooks: ModuleType) -> None:
    hooks.watch(deeper.__code__, count([]))
    hooks.install()
    for _ in range(3):
        with pytest.raises(RecursionError):
            deeper(10 * sys.getrecursionlimit())
        assert deeper(50) == 50


def traced(call: Callable[[], object]) -> list[tuple[str, str, int]]:
    """What a debugger sees of a call."""
    events: list[tuple[str, str, int]] = []

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        events.append((event, frame.f_code.co_name, frame.f_lineno))
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(former)
    return [event for event in events if event[1] in ("work", "helper", "numbers")]


def profiled(call: Callable[[], object]) -> list[tuple[str, str, int]]:
    """What a profiler sees of a call."""
    events: list[tuple[str, str, int]] = []

    def profile(frame: FrameType, event: str, argument: object) -> None:
        events.append((event, frame.f_code.co_name, frame.f_lineno))

    former = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(former)
    return [event for event in events if event[1] in ("work", "helper", "numbers")]


@pytest.mark.parametrize("tool", [traced, profiled])
def test_tracers_see_the_same_events(
    hooks: ModuleType, tool: Callable[[Callable[[], object]], list[tuple[str, str, int]]]
) -> None:
    def program() -> None:
        work(2)
        list(numbers())

    expected = tool(program)
    calls: list[str] = []
    hooks.watch(work.__code__, count(calls))
    hooks.install()
    assert tool(program) == expected
    assert calls == ["work"]
    assert len(expected) > 8


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of 3.12.")
def test_monitoring_sees_the_same_events(hooks: ModuleType) -> None:
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]

    def monitored() -> list[tuple[str, int]]:
        events: list[tuple[str, int]] = []
        monitoring.use_tool_id(3, "test")
        monitoring.register_callback(
            3, monitoring.events.PY_START, lambda code, at: events.append((code.co_name, at))
        )
        monitoring.register_callback(
            3, monitoring.events.LINE, lambda code, line: events.append((code.co_name, line))
        )
        monitoring.set_events(3, monitoring.events.PY_START | monitoring.events.LINE)
        try:
            work(2)
        finally:
            monitoring.set_events(3, 0)
            monitoring.free_tool_id(3)
        return [event for event in events if event[0] in ("work", "helper")]

    expected = monitored()
    calls: list[str] = []
    hooks.watch(work.__code__, count(calls))
    hooks.install()
    assert monitored() == expected
    assert calls == ["work"]
    assert len(expected) > 6


@pytest.mark.parametrize("when", ["enter", "leave"])
def test_an_interrupted_callback_leaves_nothing_behind(hooks: ModuleType, when: str) -> None:
    def leave(error: BaseException | None) -> None:
        if when == "leave":
            raise KeyboardInterrupt

    def enter(code: CodeType) -> tuple[str, Callable[[BaseException | None], None]]:
        if when == "enter":
            raise KeyboardInterrupt
        return "compile", leave

    callback: Any = None

    def exchange(value: Any) -> Any:
        nonlocal callback
        former, callback = callback, value
        return former

    hooks.watch(work.__code__, enter)
    hooks.install(exchange, lambda: callback)
    argument = 10**6 + 1
    held = sys.getrefcount(argument)
    for _ in range(100):
        with pytest.raises(KeyboardInterrupt):
            work(min(argument, 3))
        assert callback is None
    assert sys.getrefcount(argument) == held
    assert helper(2) == 4


def test_greenlets_may_end_watched_calls_in_any_order(hooks: ModuleType) -> None:
    greenlet = pytest.importorskip("greenlet")
    calls: list[str] = []
    main = greenlet.getcurrent()

    def switches(name: str) -> str:
        main.switch(name)
        return helper(len(name)) and name

    hooks.watch(switches.__code__, count(calls))
    hooks.install()
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        running = [greenlet.greenlet(switches) for _ in range(3)]
        assert [one.switch(str(i)) for i, one in enumerate(running)] == ["0", "1", "2"]
        assert work(3) == 6
        assert [running[i].switch() for i in order] == [str(i) for i in order]
    assert calls == ["switches"] * 9


@pytest.mark.slow
def test_greenlets_inside_a_profile(hooks: ModuleType) -> None:
    greenlet = pytest.importorskip("greenlet")
    main = greenlet.getcurrent()

    def region(name: str) -> str:
        helper(1)
        main.switch(name)
        helper(2)
        return name

    def kind_of(code: CodeType) -> int:
        return int(hooks.KIND_GENERATED if code is region.__code__ else hooks.KIND_EAGER)

    hooks.install()
    for abandoned in (False, True):
        hooks.profile_begin(kind_of, ("mark", "graph"), 1000)
        running = [greenlet.greenlet(region) for _ in range(3)]
        for i, one in enumerate(running):
            one.switch(str(i))
        if not abandoned:
            assert [running[i].switch() for i in (0, 2, 1)] == ["0", "2", "1"]
        result = hooks.profile_end()
        counts = {row[1].co_name: row[3] for row in result["records"] if row[1] is row[2]}
        assert counts["region"] == (0 if abandoned else 3)
        assert sum(row[3] for row in result["records"] if row[1] is helper.__code__) == (
            3 if abandoned else 6
        )
    del running, one
    gc.collect()


def test_a_subinterpreter_is_refused_and_the_main_one_goes_on(hooks: ModuleType) -> None:
    subinterpreters = pytest.importorskip(
        "_xxsubinterpreters" if sys.version_info < (3, 13) else "_interpreters"
    )
    if "GRAPHMEND_BC_TEST_ALONE" not in os.environ:
        # For the rest of a process that had one, torch's autograd takes the GIL to be held.
        command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", "subinterpreter"]
        alone = {**os.environ, "GRAPHMEND_BC_TEST_ALONE": "1"}
        root = Path(__file__).parents[2]
        done = subprocess.run(command, env=alone, cwd=root, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout
        return
    script = textwrap.dedent(
        f"""
        import importlib.util
        spec = importlib.util.spec_from_file_location("_frame_hooks", {str(binary())!r})
        try:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except ImportError as error:
            told = str(error)
        assert "interpreter" in told, told
        """
    )
    calls: list[str] = []
    hooks.watch(work.__code__, count(calls))
    hooks.install()
    interpreter = subinterpreters.create()
    try:
        assert subinterpreters.run_string(interpreter, script) is None
    finally:
        subinterpreters.destroy(interpreter)
    assert work(3) == 6
    assert calls == ["work"]


def test_coverage_measures_the_same_lines(hooks: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("coverage")
    (tmp_path / "subject.py").write_text(
        "def work(n):\n    if n > 2:\n        return helper(n)\n    return 0\n\n"
        "def helper(n):\n    return n * 2\n"
    )
    script = textwrap.dedent(
        f"""
        import sys, coverage
        sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]
        from tests.attachment.chain import binary, load
        hooks = load(binary())
        measuring = coverage.Coverage(data_file=None, config_file=False, include=[{str(tmp_path / "subject.py")!r}])
        measuring.start()
        import subject
        calls = []
        if {{attached}}:
            def enter(code):
                calls.append(code.co_name)
                return None, lambda error: None
            hooks.watch(subject.work.__code__, enter)
            hooks.install()
        subject.work(3)
        hooks.uninstall()
        measuring.stop()
        print(sorted(measuring.get_data().lines({str(tmp_path / "subject.py")!r})), len(calls))
        """
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", script.format(attached=attached)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.split("] ")
        for attached in (False, True)
    ]
    assert said[0][0] == said[1][0] == "[1, 2, 3, 6, 7"
    assert [lines[1].strip() for lines in said] == ["0", "1"]
