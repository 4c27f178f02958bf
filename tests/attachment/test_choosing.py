"""The extension's chooser: what becomes of its answers, and of it, while others come between.

Needs no torch.
"""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
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
    module.install()
    yield module
    module.set_chooser(None)
    module.uninstall()
    assert module.evaluator() == found


class Enter:
    """An enter that counts its calls, and is told apart by its name."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, code: CodeType) -> tuple[None, Callable[[Any], None]]:
        self.calls += 1
        return None, lambda error: None


def fresh(**more: Any) -> FunctionType:
    """A function whose code object nobody has been asked about."""
    namespace: dict[str, Any] = {"__name__": "made_up", **more}
    exec("def target():\n    return 'ran'\n", namespace)
    function: FunctionType = namespace["target"]
    return function


def choosing(target: FunctionType, enter: Any) -> Callable[[CodeType, str | None], Any]:
    return lambda code, module: enter if code is target.__code__ else None


def by_name(enter: Any) -> Callable[[CodeType, str | None], Any]:
    return lambda code, module: enter if code.co_name == "target" else None


class Slow:
    """A chooser that is in the middle of its answer for as long as the block of `asked` runs."""

    def __init__(self, target: FunctionType, answer: Any) -> None:
        self.target, self.answer = target, answer
        self.began, self.go_on = threading.Event(), threading.Event()

    def __call__(self, code: CodeType, module: str | None) -> Any:
        if code is self.target.__code__:
            self.began.set()
            assert self.go_on.wait(10)
            return self.answer
        return None

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        thread = threading.Thread(target=self.target)
        thread.start()
        assert self.began.wait(10)
        yield
        self.go_on.set()
        thread.join()


@pytest.mark.parametrize("former", ["refuses", "chooses"])
def test_a_chooser_set_while_another_answers_is_asked(hooks: ModuleType, former: str) -> None:
    target, first, second = fresh(), Enter(), Enter()
    slow = Slow(target, first if former == "chooses" else None)
    hooks.set_chooser(slow)
    with slow.asked():
        hooks.set_chooser(choosing(target, second))
    for _ in range(2):
        assert target() == "ran"
    assert second.calls == 2
    assert first.calls == (former == "chooses")  # in the call that asked for it


def test_no_chooser_set_while_one_answers_leaves_nothing_watched(hooks: ModuleType) -> None:
    target, enter = fresh(), Enter()
    slow = Slow(target, enter)
    hooks.set_chooser(slow)
    with slow.asked():
        hooks.set_chooser(None)
    assert target() == "ran"
    assert enter.calls == 1


@pytest.mark.parametrize("answer", ["refuses", "chooses"])
def test_what_is_watched_while_the_chooser_answers_stays_watched(
    hooks: ModuleType, answer: str
) -> None:
    target, chosen, exact = fresh(), Enter(), Enter()
    slow = Slow(target, chosen if answer == "chooses" else None)
    hooks.set_chooser(slow)
    with slow.asked():
        hooks.watch(target.__code__, exact)
    assert target() == "ran"
    assert (exact.calls, chosen.calls) == (2, 0)


def test_setting_a_chooser_voids_what_was_chosen_and_not_what_is_watched(
    hooks: ModuleType,
) -> None:
    chosen, watched = fresh(), fresh()
    first, second, exact = Enter(), Enter(), Enter()
    hooks.watch(watched.__code__, exact)
    hooks.set_chooser(choosing(chosen, first))
    chosen()
    gone = weakref.ref(first)
    hooks.set_chooser(choosing(chosen, second))
    del first
    gc.collect()
    assert gone() is None
    chosen(), watched()
    assert (second.calls, exact.calls) == (1, 1)
    hooks.set_chooser(None)
    chosen(), watched()
    assert (second.calls, exact.calls) == (1, 2)


def test_what_was_chosen_is_freed_with_its_code_or_its_chooser(hooks: ModuleType) -> None:
    targets = [fresh() for _ in range(5)]
    enters = {id(target.__code__): Enter() for target in targets}
    gone = [weakref.ref(enter) for enter in enters.values()]
    hooks.set_chooser(lambda code, module: enters.pop(id(code), None))
    for target in targets:
        target()
    del target
    for place in (2, 0, 2):  # from the middle, then from both ends
        del targets[place]
    gc.collect()
    assert [reference() is None for reference in gone] == [True, False, True, False, True]
    hooks.set_chooser(None)
    assert [reference() for reference in gone] == [None] * 5
    assert [target() for target in targets] == ["ran"] * 2


@pytest.mark.parametrize("how", ["watches", "unwatches", "sets", "drops"])
def test_the_end_of_an_enter_may_change_what_is_watched(hooks: ModuleType, how: str) -> None:
    targets, exact = [fresh(), fresh(), fresh()], Enter()
    ended: list[str] = []

    class Ends(Enter):
        def __del__(self) -> None:
            ended.append(how)
            for target in targets:
                if how == "watches":
                    hooks.watch(target.__code__, exact)
                elif how == "unwatches":
                    hooks.unwatch(target.__code__)
            if how == "sets":
                hooks.set_chooser(None)
            elif how == "drops":
                targets.clear()

    hooks.set_chooser(lambda code, module: Ends() if code.co_name == "target" else None)
    for target in targets:
        target()
    del target
    hooks.set_chooser(choosing(fresh(), None))
    assert ended == [how] * 3
    assert [target() for target in targets] == ([] if how == "drops" else ["ran"] * 3)
    assert exact.calls == (3 if how == "watches" else 0)


def test_a_chooser_that_fails_is_told_of_once_for_each_code_object(hooks: ModuleType) -> None:
    target, other = fresh(), fresh()

    def fails(code: CodeType, module: str | None) -> None:
        if code in (target.__code__, other.__code__):
            raise LookupError(f"about {code.co_name}")

    hooks.set_chooser(fails)
    for function in (target, other):
        with pytest.raises(LookupError, match="about target"):
            function()
        assert function() == "ran"


def test_a_chooser_that_is_interrupted_is_asked_again(hooks: ModuleType) -> None:
    target, enter = fresh(), Enter()
    answers: list[Any] = [KeyboardInterrupt, SystemExit]

    def choose(code: CodeType, module: str | None) -> Enter | None:
        if code is not target.__code__:
            return None
        if answers:
            raise answers.pop(0)
        return enter

    hooks.set_chooser(choose)
    for kind in (KeyboardInterrupt, SystemExit):
        with pytest.raises(kind):
            target()
    assert target() == "ran"
    assert enter.calls == 1


def test_a_failure_about_what_came_to_be_watched_goes_on(hooks: ModuleType) -> None:
    target, exact = fresh(), Enter()

    def fails(code: CodeType, module: str | None) -> None:
        if code is target.__code__:
            hooks.watch(code, exact)
            raise LookupError

    hooks.set_chooser(fails)
    with pytest.raises(LookupError):
        target()
    assert target() == "ran"
    assert exact.calls == 1


def test_nobody_is_asked_about_generators_and_coroutines(hooks: ModuleType) -> None:
    namespace: dict[str, Any] = {}
    exec(
        "def numbers():\n    yield 1\n    yield 2\n"
        "async def later():\n    return 3\n"
        "async def many():\n    yield 4\n",
        namespace,
    )
    asked = []
    enter = Enter()

    def choose(code: CodeType, module: str | None) -> Enter | None:
        asked.append(code.co_name)
        return enter if code.co_name in ("numbers", "later", "many") else None

    hooks.set_chooser(choose)
    assert list(namespace["numbers"]()) == [1, 2]
    running = namespace["numbers"]()
    next(running)
    with pytest.raises(KeyError):
        running.throw(KeyError)
    with pytest.raises(StopIteration):
        namespace["later"]().send(None)
    with pytest.raises(StopIteration):
        namespace["many"]().__anext__().send(None)
    assert not {"numbers", "later", "many"} & set(asked)
    assert enter.calls == 0


class Name(str):
    """A name that is not what it seems."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        raise OSError


@pytest.mark.parametrize("name", [3, None, b"made_up", Name("made_up")])
def test_a_module_name_that_is_no_string_is_none(hooks: ModuleType, name: object) -> None:
    target, told = fresh(__name__=name), []

    def choose(code: CodeType, module: str | None) -> None:
        if code is target.__code__:
            told.append(module)

    hooks.set_chooser(choose)
    assert target() == "ran"
    assert told == [None]


def test_a_module_name_that_changes_while_it_is_told(hooks: ModuleType) -> None:
    target, told = fresh(__name__="".join(["made", "_up", "_here"])), []

    class Choose:
        def __call__(self, code: CodeType, module: str | None) -> None:
            if code is target.__code__:
                target.__globals__.clear()
                gc.collect()
                told.append(module)

    hooks.set_chooser(Choose())
    assert target() == "ran"
    assert told == ["made_up_here"]


@pytest.mark.slow
def test_a_module_that_goes_while_its_chooser_answers() -> None:
    modules = [load(binary())]
    target, chooser_gone = fresh(), []

    class Last:
        def __call__(self, code: CodeType, module: str | None) -> None:
            if code is target.__code__:
                modules.pop().uninstall()
                gc.collect()

    chooser = Last()
    gone = weakref.ref(modules[0])
    chooser_gone.append(weakref.ref(chooser))
    found = modules[0].evaluator()
    modules[0].install()
    modules[0].set_chooser(chooser)
    del chooser
    assert target() == "ran"
    gc.collect()
    assert gone() is None
    assert chooser_gone[0]() is None  # its module held it, and freed it
    module = load(binary())
    assert module.evaluator() == found
    assert not module.installed()


def test_a_neighbour_that_is_asked_may_take_the_chooser_away(hooks: ModuleType) -> None:
    target = fresh()
    hooks.uninstall()
    current = [lambda: None]

    def take_away() -> None:
        hooks.set_chooser(None)

    hooks.install(lambda callback: None, lambda: current[0]())
    hooks.set_chooser(choosing(target, Enter()))
    current[0] = take_away
    assert target() == "ran"


def test_threads_call_while_choosers_come_and_go_and_code_dies(hooks: ModuleType) -> None:
    targets = [fresh() for _ in range(8)]
    results: list[str] = []
    stop = threading.Event()

    def call_on() -> None:
        while not stop.is_set():
            results.append(targets[len(results) % 8]())

    def replace_on() -> None:
        while not stop.is_set():
            targets[len(results) % 8] = fresh()
            hooks.watch(targets[0].__code__, Enter())
            hooks.unwatch(targets[len(results) % 8].__code__)

    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=call) for call in (call_on, call_on, call_on, replace_on)]
    try:
        for thread in threads:
            thread.start()
        for i in range(300):
            hooks.set_chooser(by_name(Enter()))
            targets[i % 8]()
            if i % 7 == 0:
                hooks.uninstall()
                hooks.install()
    finally:
        stop.set()
        sys.setswitchinterval(0.005)
        for thread in threads:
            thread.join()
    assert set(results) == {"ran"}
    last = Enter()
    hooks.set_chooser(by_name(last))
    for target in targets:
        hooks.unwatch(target.__code__)
        target()
    assert last.calls == 8


@pytest.mark.slow
def test_no_path_keeps_memory(hooks: ModuleType) -> None:
    def fail(*ignored: object) -> Any:
        raise LookupError(len(ignored))

    def failing(target: FunctionType) -> Callable[[CodeType, str | None], Any]:
        return lambda code, module: fail(module) if code is target.__code__ else None

    def enters() -> list[Any]:
        return [Enter(), None, fail, lambda code: None, lambda code: 1, lambda code: (None, fail)]

    def round_() -> None:
        for place in range(6):
            target, enter = fresh(), enters()[place]
            for choose in (choosing(target, enter), failing(target)):
                hooks.set_chooser(choose)
                with contextlib.suppress(LookupError, TypeError):
                    target()
                with contextlib.suppress(LookupError, TypeError):
                    target()
            if place % 2:
                hooks.watch(target.__code__, Enter())
                target()
            hooks.set_chooser(None)
            target()

    def level() -> int:
        gc.collect()
        return sys.getallocatedblocks()

    for _ in range(20):
        round_()
    before = level()
    for _ in range(200):
        round_()
    assert level() - before < 200  # one block a round would be 200


SHUTDOWN = """
    import sys
    sys.path.insert(0, {root!r})
    from tests.attachment.chain import binary, load
    import logging, os, types

    hooks = load(binary())

    def say(text, number=1, write=os.write):
        write(number, text.encode() + b" ")

    def asked(*ignored, late=sys.is_finalizing, say=say):
        if late():
            say("asked", 2)
        return hooks.KIND_GENERATED

    def enter(code, asked=asked):
        return None, asked(code) and asked

    def target():
        pass

    class Ends:
        def __del__(self, target=target, say=say):
            target()
            say("ended")

    class Handler(logging.Handler):
        def close(self):
            say("closed")
            super().close()

    logging.getLogger().addHandler(Handler())
    held = sys.modules["held"] = types.ModuleType("held")
    held.ends = Ends()
    del held
    hooks.install()
    {attach}
    sys.exit(7)
"""


@pytest.mark.parametrize(
    "attach",
    [
        "",
        "hooks.set_chooser(lambda code, module: asked() and None)",
        "hooks.watch(target.__code__, enter)",
        "hooks.profile_begin(asked, ('a', 'b'), 1)",
    ],
)
def test_nobody_is_asked_once_python_takes_modules_apart(attach: str) -> None:
    binary()
    script = textwrap.dedent(SHUTDOWN.format(root=str(ROOT), attach=attach))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert done.returncode == 7
    assert done.stdout.split() == ["closed", "ended"]
