"""The extension by itself: what it calls, what it hands on, what it gives back. Needs no torch."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.attachment.chain import another_tool, binary, load


@pytest.fixture(autouse=True)
def clean_slate() -> None:
    """In place of the fixture for all tests, which skips where there is no torch."""


@pytest.fixture
def hooks() -> Iterator[ModuleType]:
    module = load(binary())
    found = module.evaluator()
    yield module
    module.set_chooser(None)
    for function in (add, fail, factorial):
        module.unwatch(function.__code__)
    module.uninstall()
    assert module.evaluator() == found


class Neighbour:
    """Stands in for Dynamo's per-thread callback: None is off, as there."""

    def __init__(self) -> None:
        self.callback: Any = None
        self.seen: list[Any] = []

    def exchange(self, callback: Any) -> Any:
        self.seen.append(callback)
        former, self.callback = self.callback, callback
        return former

    def current(self) -> Any:
        return self.callback


class Log:
    """An enter whose leave writes down what it is given."""

    def __init__(self, callback: Any = None) -> None:
        self.callback = callback
        self.lines: list[Any] = []

    def __call__(self, code: CodeType) -> tuple[Any, Callable[[Any], None]]:
        self.lines.append(code.co_name)
        return self.callback, self.lines.append


def add(a: int, b: int = 2, *rest: int, c: int = 0, **more: int) -> int:
    return a + b + sum(rest) + c + sum(more.values())


def fail(kind: type[BaseException]) -> None:
    raise kind("from the frame")


def factorial(n: int) -> int:
    return 1 if n == 0 else n * factorial(n - 1)


def test_installing_and_uninstalling_restores_the_evaluator(hooks: ModuleType) -> None:
    found = hooks.evaluator()
    hooks.install()
    assert hooks.installed()
    assert hooks.evaluator() != found
    hooks.uninstall()
    hooks.uninstall()
    assert not hooks.installed()
    assert hooks.evaluator() == found


def test_it_is_installed_once(hooks: ModuleType) -> None:
    hooks.install()
    with pytest.raises(RuntimeError, match="installed already"):
        hooks.install()


def test_enter_and_leave_surround_a_watched_frame(hooks: ModuleType) -> None:
    log = Log()
    hooks.watch(add.__code__, log)
    assert add(1) == 3
    hooks.install()
    assert add(1, 2, 3, c=4, d=5) == 15
    assert log.lines == ["add", None]
    hooks.unwatch(add.__code__)
    assert add(1) == 3
    assert log.lines == ["add", None]


def test_leave_is_given_the_exception_and_it_goes_on(hooks: ModuleType) -> None:
    log = Log()
    hooks.watch(fail.__code__, log)
    hooks.install()
    with pytest.raises(KeyError, match="from the frame") as caught:
        fail(KeyError)
    assert log.lines == ["fail", caught.value]
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "fail"


def test_every_level_of_a_recursion_enters_and_leaves(hooks: ModuleType) -> None:
    log = Log()
    hooks.watch(factorial.__code__, log)
    hooks.install()
    assert factorial(5) == 120
    assert log.lines == ["factorial"] * 6 + [None] * 6


def test_the_neighbour_is_on_while_the_frame_runs(hooks: ModuleType) -> None:
    neighbour = Neighbour()
    inside = []

    def look() -> None:
        inside.append(neighbour.callback)

    hooks.watch(look.__code__, Log("compile"))
    hooks.install(neighbour.exchange, neighbour.current)
    look()
    assert inside == ["compile"]
    assert neighbour.callback is None


def test_the_neighbour_is_off_again_after_an_exception(hooks: ModuleType) -> None:
    neighbour = Neighbour()
    hooks.watch(fail.__code__, Log("compile"))
    hooks.install(neighbour.exchange, neighbour.current)
    with pytest.raises(ValueError, match="from the frame"):
        fail(ValueError)
    assert neighbour.seen[-2:] == ["compile", None]


def test_a_frame_inside_the_neighbours_region_is_left_alone(hooks: ModuleType) -> None:
    neighbour = Neighbour()
    log = Log("ours")
    hooks.watch(factorial.__code__, log)
    hooks.install(neighbour.exchange, neighbour.current)
    before = hooks.counters()
    neighbour.callback = "theirs"
    assert factorial(3) == 6
    neighbour.callback = None
    assert factorial(3) == 6
    after = hooks.counters()
    assert log.lines == ["factorial", None]
    assert after["left"] - before["left"] == 4 + 3
    assert after["handed"] - before["handed"] == 1


def test_an_enter_that_returns_none_leaves_the_frame_alone(hooks: ModuleType) -> None:
    hooks.watch(add.__code__, lambda code: None)
    hooks.install()
    assert add(1) == 3


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_what_enter_raises_is_raised_by_the_frame(
    hooks: ModuleType, kind: type[BaseException]
) -> None:
    ran = []

    def body(argument: object) -> None:
        ran.append(argument)

    def enter(code: CodeType) -> None:
        raise kind("from enter")

    hooks.watch(body.__code__, enter)
    hooks.install()
    argument = object()
    held = sys.getrefcount(argument)
    for _ in range(3):
        with pytest.raises(kind, match="from enter"):
            body(argument)
    assert ran == []
    assert sys.getrefcount(argument) == held


def test_the_frames_own_handlers_do_not_catch_what_enter_raises(hooks: ModuleType) -> None:
    def guarded() -> str:
        try:
            return "ran"
        except ValueError:
            return "caught"

    def enter(code: CodeType) -> None:
        raise ValueError("from enter")

    hooks.watch(guarded.__code__, enter)
    hooks.install()
    with pytest.raises(ValueError, match="from enter"):
        guarded()


@pytest.mark.parametrize("plan", [1, (None,), [None, print]])
def test_an_enter_that_returns_nonsense_is_named(hooks: ModuleType, plan: object) -> None:
    hooks.watch(add.__code__, lambda code: plan)
    hooks.install()
    with pytest.raises(TypeError, match="must return None or a pair"):
        add(1)


def test_what_leave_raises_replaces_the_result(hooks: ModuleType) -> None:
    def leave(error: BaseException | None) -> None:
        raise OSError("from leave") from error

    hooks.watch(add.__code__, lambda code: (None, leave))
    hooks.watch(fail.__code__, lambda code: (None, leave))
    hooks.install()
    with pytest.raises(OSError, match="from leave"):
        add(1)
    with pytest.raises(OSError, match="from leave") as caught:
        fail(KeyError)
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_leave_raises_has_the_frames_exception_as_its_context(hooks: ModuleType) -> None:
    def leave(error: BaseException | None) -> None:
        assert sys.exception() is error
        raise OSError("from leave")

    hooks.watch(fail.__code__, lambda code: (None, leave))
    hooks.install()
    with pytest.raises(OSError, match="from leave") as caught:
        fail(KeyError)
    context = caught.value.__context__
    assert isinstance(context, KeyError)
    assert context.__context__ is None
    assert sys.exception() is None


@pytest.mark.parametrize("again", ["raise error", "raise", "raise OSError from None"])
def test_leave_may_raise_the_frames_exception_again(hooks: ModuleType, again: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def leave(error):\n    {again}\n", namespace)
    hooks.watch(fail.__code__, lambda code: (None, namespace["leave"]))
    hooks.install()
    with pytest.raises((KeyError, OSError)) as caught:
        fail(KeyError)
    if isinstance(caught.value, KeyError):
        assert caught.value.__context__ is None
    else:
        assert isinstance(caught.value.__context__, KeyError)
        assert caught.value.__suppress_context__


def test_leave_changes_nothing_about_the_exception_that_is_being_handled(
    hooks: ModuleType,
) -> None:
    hooks.watch(fail.__code__, Log())
    hooks.install()

    def resumable() -> Iterator[BaseException | None]:
        for _ in range(2):
            with contextlib.suppress(KeyError):
                fail(KeyError)
            yield sys.exception()

    running, outer = resumable(), ValueError()
    handled: list[BaseException | None] = []
    try:
        raise outer
    except ValueError:
        handled.append(next(running))
        with pytest.raises(KeyError) as caught:
            fail(KeyError)
        handled += [caught.value.__context__, sys.exception()]
    assert handled == [outer] * 3
    assert next(running) is None


def test_a_neighbour_that_cannot_be_set_back_has_the_frames_exception_as_its_context(
    hooks: ModuleType,
) -> None:
    neighbour = Neighbour()

    def exchange(callback: Any) -> Any:
        if neighbour.callback == "compile":
            raise OSError("from exchange")
        return neighbour.exchange(callback)

    hooks.watch(fail.__code__, Log("compile"))
    hooks.install(exchange, neighbour.current)
    with pytest.raises(OSError, match="from exchange") as caught:
        fail(KeyError)
    assert isinstance(caught.value.__context__, KeyError)
    neighbour.callback = None


def test_callbacks_are_not_watched_themselves(hooks: ModuleType) -> None:
    def enter(code: CodeType) -> tuple[None, Callable[[object], int]]:
        return None, lambda error: add(add(1))

    hooks.watch(add.__code__, enter)
    hooks.install()
    assert add(1) == 3


def test_unwatching_and_uninstalling_from_inside_the_frame(hooks: ModuleType) -> None:
    neighbour = Neighbour()
    log = Log("compile")

    def leaves_early() -> str:
        hooks.unwatch(leaves_early.__code__)
        hooks.uninstall()
        return "done"

    hooks.watch(leaves_early.__code__, log)
    hooks.install(neighbour.exchange, neighbour.current)
    assert leaves_early() == "done"
    assert log.lines == ["leaves_early", None]
    assert neighbour.callback is None
    assert not hooks.installed()


def test_the_chooser_is_asked_once_a_code_object(hooks: ModuleType) -> None:
    asked = []
    log = Log()

    def choose(code: CodeType, module: str | None) -> Log | None:
        if module == __name__:
            asked.append(code.co_name)
        return log if code is add.__code__ else None

    hooks.install()
    hooks.set_chooser(choose)
    for _ in range(3):
        assert add(1) + factorial(0) == 4
    assert asked == ["add", "factorial"]
    assert log.lines == ["add", None] * 3
    hooks.set_chooser(choose)
    assert factorial(0) == 1
    assert asked == ["add", "factorial", "factorial"]


def test_the_neighbours_own_frames_are_not_chosen(hooks: ModuleType) -> None:
    neighbour, asked = Neighbour(), []
    hooks.install(neighbour.exchange, neighbour.current)
    hooks.set_chooser(lambda code, module: asked.append(code.co_name))
    assert add(1) == 3
    assert "add" in asked
    assert "current" not in asked


def test_what_the_chooser_raises_is_raised_by_the_frame(hooks: ModuleType) -> None:
    def choose(code: CodeType, module: str | None) -> None:
        if code is add.__code__:
            raise LookupError("from the chooser")

    hooks.install()
    hooks.set_chooser(choose)
    with pytest.raises(LookupError, match="from the chooser"):
        add(1)


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None:
    return None


@pytest.mark.parametrize("function", [generator, coroutine])
def test_generators_and_coroutines_are_refused(
    hooks: ModuleType, function: Callable[[], object]
) -> None:
    with pytest.raises(ValueError, match=f"{function.__name__} is a generator or a coroutine"):
        hooks.watch(function.__code__, Log())


@pytest.mark.parametrize(
    "call",
    [
        lambda hooks: hooks.watch(add, Log()),
        lambda hooks: hooks.watch(add.__code__, None),
        lambda hooks: hooks.unwatch(add),
        lambda hooks: hooks.set_chooser(1),
        lambda hooks: hooks.install(print),
    ],
)
def test_wrong_arguments_are_type_errors(
    hooks: ModuleType, call: Callable[[ModuleType], object]
) -> None:
    with pytest.raises(TypeError):
        call(hooks)
    assert not hooks.installed()


def test_generators_run_while_installed(hooks: ModuleType) -> None:
    def throws_in() -> Iterator[str]:
        try:
            yield "first"
        except ValueError:
            yield "thrown"

    hooks.install()
    running = throws_in()
    assert next(running) == "first"
    assert running.throw(ValueError) == "thrown"


def test_two_threads_each_get_their_own_enter_and_leave(hooks: ModuleType) -> None:
    meet = threading.Barrier(2, timeout=10)
    log = Log()

    def both_inside() -> None:
        meet.wait()

    hooks.watch(both_inside.__code__, log)
    hooks.install()
    threads = [threading.Thread(target=both_inside) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log.lines == ["both_inside"] * 2 + [None] * 2


def test_another_tool_installed_first_goes_on_seeing_frames(
    hooks: ModuleType, tmp_path: Path
) -> None:
    tool, theirs, ours = another_tool(tmp_path), Log(), Log()
    tool.install()
    on_its_own = tool.evaluator()
    tool.watch(add.__code__, theirs)
    hooks.watch(add.__code__, ours)
    hooks.install()
    assert add(1) == 3
    assert (theirs.lines, ours.lines) == (["add", None], ["add", None])
    hooks.uninstall()
    assert hooks.evaluator() == on_its_own
    tool.uninstall()


def test_a_tool_on_top_sees_a_frame_without_callback_once(
    hooks: ModuleType, tmp_path: Path
) -> None:
    tool, log = another_tool(tmp_path), Log()
    hooks.watch(add.__code__, log)
    hooks.install()
    tool.install()
    before = tool.counters()["frames"]
    assert add(1) == 3
    seen = tool.counters()["frames"] - before
    tool.uninstall()
    assert log.lines == ["add", None]
    assert seen == 2  # the frame, and the enter's


def test_uninstalled_below_another_tool_it_goes_when_it_surfaces(
    hooks: ModuleType, tmp_path: Path
) -> None:
    found = hooks.evaluator()
    tool, log = another_tool(tmp_path), Log()
    hooks.watch(add.__code__, log)
    hooks.install()
    tool.install()
    on_top = tool.evaluator()
    hooks.uninstall()
    assert add(1) == 3
    assert log.lines == []
    assert hooks.evaluator() == on_top
    tool.uninstall()
    assert add(1) == 3
    assert hooks.evaluator() == found


def test_installed_again_below_another_tool_it_makes_no_cycle(
    hooks: ModuleType, tmp_path: Path
) -> None:
    found = hooks.evaluator()
    tool, log = another_tool(tmp_path), Log()
    hooks.watch(add.__code__, log)
    for _ in range(3):
        hooks.install()
        if not tool.installed():
            tool.install()
        assert add(1) == 3
        hooks.uninstall()
    assert len(log.lines) == 6
    tool.uninstall()
    assert add(1) == 3
    assert hooks.evaluator() == found


def test_a_watched_code_object_keeps_its_enter_and_no_longer(hooks: ModuleType) -> None:
    namespace: dict[str, Any] = {}
    exec("def short_lived(): pass", namespace)
    log = Log()
    gone = weakref.ref(log)
    hooks.watch(namespace["short_lived"].__code__, log)
    del log
    assert gone() is not None
    namespace.clear()
    assert gone() is None


def test_watching_again_releases_the_former_enter(hooks: ModuleType) -> None:
    first = Log()
    gone = weakref.ref(first)
    hooks.watch(add.__code__, first)
    del first
    hooks.watch(add.__code__, Log())
    assert gone() is None


@pytest.mark.slow
def test_a_thousand_rounds_leave_reference_counts_level(hooks: ModuleType) -> None:
    neighbour, log = Neighbour(), Log("compile")
    things = [neighbour, log, add.__code__, fail.__code__, hooks]

    def round_() -> None:
        hooks.watch(add.__code__, log)
        hooks.watch(fail.__code__, log)
        hooks.install(neighbour.exchange, neighbour.current)
        add(1)
        with pytest.raises(KeyError):
            fail(KeyError)
        hooks.unwatch(add.__code__)
        hooks.unwatch(fail.__code__)
        hooks.uninstall()
        log.lines.clear()
        neighbour.seen.clear()

    def level() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    for _ in range(3):
        round_()
    before = level()
    for _ in range(1000):
        round_()
    assert level() == before


@pytest.mark.skipif(
    not hasattr(sys, "gettotalrefcount"), reason="Only debug builds of CPython count all."
)
def test_no_path_leaks_a_reference(hooks: ModuleType) -> None:
    neighbour, log = Neighbour(), Log("compile")

    def raise_(*ignored: object) -> Any:
        raise OSError

    enters: list[Any] = [log, raise_, lambda code: (None, raise_), lambda code: 1]

    def round_() -> None:
        hooks.install(neighbour.exchange, neighbour.current)
        for enter in enters:
            for function, argument in ((add, 1), (fail, KeyError)):
                hooks.watch(function.__code__, enter)
                with contextlib.suppress(OSError, TypeError, KeyError):
                    function(argument)  # type: ignore[operator]
                hooks.unwatch(function.__code__)
        hooks.set_chooser(lambda code, module: log if code is add.__code__ else None)
        add(1)
        hooks.set_chooser(None)
        hooks.unwatch(add.__code__)
        hooks.uninstall()
        log.lines.clear()
        neighbour.seen.clear()

    def total() -> int:
        gc.collect()
        return sys.gettotalrefcount()  # type: ignore[attr-defined,no-any-return]

    for _ in range(5):
        round_()
    before = total()
    for _ in range(500):
        round_()
    assert abs(total() - before) < 50
