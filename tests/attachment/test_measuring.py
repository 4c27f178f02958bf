"""The extension's profile by itself, with a neighbour that only pretends. Needs no torch."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.attachment.chain import binary, load

MARK = ("mark", "a graph")


@pytest.fixture(autouse=True)
def clean_slate() -> None:
    """In place of the fixture for all tests, which skips where there is no torch."""


@pytest.fixture
def hooks() -> Iterator[ModuleType]:
    module = load(binary())
    found = module.evaluator()
    module.install()
    yield module
    module.uninstall()
    assert module.evaluator() == found


def leaf() -> None: ...


def region(inside: Callable[[], object] = leaf) -> object:
    return inside()


def wrapper() -> None:
    leaf()


def classify(hooks: ModuleType, **kinds: str) -> Callable[[CodeType], int]:
    """Names to kinds; what is not named is eager."""

    def kind_of(code: CodeType) -> int:
        return int(getattr(hooks, f"KIND_{kinds.get(code.co_name, 'EAGER')}"))

    return kind_of


def measured(hooks: ModuleType, call: Callable[[], object], **kinds: str) -> dict[Any, int]:
    """Calls by (kind, name, cause)."""
    hooks.profile_begin(classify(hooks, **kinds), MARK, 100)
    try:
        call()
    finally:
        result = hooks.profile_end()
    return {
        (kind, code.co_name, cause.co_name): calls
        for kind, code, cause, calls, _, _ in result["records"]
    }


def test_what_generated_code_calls_has_it_as_its_cause(hooks: ModuleType) -> None:
    counts = measured(hooks, lambda: [region() for _ in range(3)], region="GENERATED")
    assert counts == {
        (hooks.KIND_GENERATED, "region", "region"): 3,
        (hooks.KIND_EAGER, "leaf", "region"): 3,
    }


def test_nothing_beneath_a_graph_or_a_compiler_is_measured(hooks: ModuleType) -> None:
    for kind in ("GRAPH", "COMPILER"):
        counts = measured(hooks, lambda: region(wrapper), region="GENERATED", wrapper=kind)
        assert set(counts) == {
            (hooks.KIND_GENERATED, "region", "region"),
            (getattr(hooks, f"KIND_{kind}"), "wrapper", "region"),
        }


def test_a_wrapper_is_a_graph_if_it_has_the_mark(hooks: ModuleType) -> None:
    kinds = {"region": "GENERATED", "wrapper": "WRAPPER"}
    assert set(measured(hooks, lambda: region(wrapper), **kinds)) == {
        (hooks.KIND_GENERATED, "region", "region"),
        (hooks.KIND_EAGER, "leaf", "region"),
    }
    wrapper.mark = "a graph"  # type: ignore[attr-defined]
    try:
        assert set(measured(hooks, lambda: region(wrapper), **kinds)) == {
            (hooks.KIND_GENERATED, "region", "region"),
            (hooks.KIND_GRAPH, "wrapper", "region"),
        }
    finally:
        del wrapper.mark  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_what_classify_raises_is_raised_by_the_frame(
    hooks: ModuleType, kind: type[BaseException]
) -> None:
    def fails(code: CodeType) -> int:
        if code is leaf.__code__:
            raise kind("from classify")
        return int(hooks.KIND_PLUMBING)

    hooks.profile_begin(fails, MARK, 10)
    with pytest.raises(kind, match="from classify"):
        leaf()
    assert hooks.profile_end()["records"] == []


@pytest.mark.parametrize("answer", [0, 99, -1])
def test_a_kind_that_is_none_is_named(hooks: ModuleType, answer: int) -> None:
    def classify_wrongly(code: CodeType) -> int:
        return answer if code is leaf.__code__ else int(hooks.KIND_PLUMBING)

    hooks.profile_begin(classify_wrongly, MARK, 10)
    with pytest.raises(ValueError, match=f"one of the KIND_ constants, not {answer}"):
        leaf()
    hooks.profile_end()


def test_calls_one_by_one_up_to_the_limit(hooks: ModuleType) -> None:
    hooks.profile_begin(classify(hooks, region="GENERATED"), MARK, 5)
    for _ in range(4):
        region()
    result = hooks.profile_end()
    numbers = memoryview(result["calls"]).cast("q")
    assert (len(numbers) // 4, result["dropped"]) == (5, 3)
    names = [result["records"][index][1].co_name for index in numbers[3::4]]
    assert names == ["leaf", "region", "leaf", "region", "leaf"]
    ended = [start + duration for start, duration in zip(numbers[0::4], numbers[1::4], strict=True)]
    assert ended == sorted(ended)


def test_a_profile_may_end_and_another_begin_inside_a_measured_call(hooks: ModuleType) -> None:
    def changes() -> None:
        first.append(hooks.profile_end())
        hooks.profile_begin(classify(hooks, region="GENERATED"), MARK, 10)

    first: list[Any] = []
    hooks.profile_begin(classify(hooks, region="GENERATED"), MARK, 10)
    region(changes)
    region()
    second = hooks.profile_end()
    assert {row[1].co_name: row[3] for row in first[0]["records"]} == {"region": 0, "changes": 0}
    assert {row[1].co_name: row[3] for row in second["records"]} == {"region": 1, "leaf": 1}


def test_many_records_are_told_apart(hooks: ModuleType) -> None:
    functions = []
    for number in range(500):
        namespace: dict[str, Any] = {}
        exec(f"def f{number}(): pass", namespace)
        functions.append(namespace[f"f{number}"])
    counts = measured(
        hooks, lambda: [region(function) for function in functions * 2], region="GENERATED"
    )
    assert counts.pop((hooks.KIND_GENERATED, "region", "region")) == 1000
    assert set(counts.values()) == {2}
    assert len(counts) == 500


def test_begin_and_end_out_of_order_are_refused(hooks: ModuleType) -> None:
    with pytest.raises(RuntimeError, match="No profile is running"):
        hooks.profile_end()
    hooks.profile_begin(classify(hooks), MARK, 0)
    with pytest.raises(RuntimeError, match="running already"):
        hooks.profile_begin(classify(hooks), MARK, 0)
    hooks.profile_end()
    hooks.uninstall()
    with pytest.raises(RuntimeError, match="not installed"):
        hooks.profile_begin(classify(hooks), MARK, 0)
    hooks.install()
    for arguments in ((None, MARK, 0), (print, (1,), 0), (print, MARK, "x")):
        with pytest.raises(TypeError):
            hooks.profile_begin(*arguments)


@pytest.mark.slow
def test_a_code_object_is_held_until_the_profile_ends_and_no_longer(hooks: ModuleType) -> None:
    def level() -> int:
        gc.collect()
        return sys.getrefcount(leaf.__code__)

    before = level()
    for _ in range(50):
        measured(hooks, region, region="GENERATED")
    assert level() == before


def test_what_a_call_costs_is_a_positive_time(hooks: ModuleType) -> None:
    assert hooks.profile_cost(leaf.__code__) > 0
    with pytest.raises(TypeError, match="takes a code object"):
        hooks.profile_cost(leaf)


def test_profiles_begin_and_end_while_threads_run(hooks: ModuleType) -> None:
    stop, failures = threading.Event(), []

    def work() -> None:
        try:
            while not stop.is_set():
                region(wrapper)
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(4)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(200):
            hooks.profile_begin(classify(hooks, region="GENERATED"), MARK, 50)
            region(wrapper)
            rows = hooks.profile_end()["records"]
            calls = {row[1].co_name: row[3] for row in rows}
            assert calls["region"] > 0
            assert calls["leaf"] > 0
    finally:
        stop.set()
        sys.setswitchinterval(0.005)
        for thread in threads:
            thread.join()
    assert failures == []


@pytest.mark.parametrize("plan", [None, (None, id)])
def test_a_watched_frame_that_is_not_handed_over_is_measured_like_any_other(
    hooks: ModuleType, plan: object
) -> None:
    hooks.watch(leaf.__code__, lambda code: plan)
    try:
        counts = measured(hooks, region, region="GENERATED")
    finally:
        hooks.unwatch(leaf.__code__)
    assert counts == {
        (hooks.KIND_GENERATED, "region", "region"): 1,
        (hooks.KIND_EAGER, "leaf", "region"): 1,
    }


def test_a_watched_frame_inside_the_neighbours_region_is_measured(hooks: ModuleType) -> None:
    hooks.uninstall()
    hooks.install(lambda callback: None, lambda: "on")
    hooks.watch(leaf.__code__, lambda code: (None, id))
    try:
        counts = measured(hooks, region, region="GENERATED", **{"<lambda>": "PLUMBING"})
    finally:
        hooks.unwatch(leaf.__code__)
    assert counts[hooks.KIND_EAGER, "leaf", "region"] == 1


def test_an_answer_to_a_profile_that_has_ended_is_not_taken_for_the_nexts(
    hooks: ModuleType,
) -> None:
    asked = []

    def second(code: CodeType) -> int:
        asked.append(code.co_name)
        return int(hooks.KIND_EAGER if code is leaf.__code__ else hooks.KIND_PLUMBING)

    def first(code: CodeType) -> int:
        if code is leaf.__code__:
            hooks.profile_end()
            hooks.profile_begin(second, MARK, 10)
        return int(hooks.KIND_GENERATED if code is leaf.__code__ else hooks.KIND_PLUMBING)

    hooks.profile_begin(first, MARK, 10)
    leaf()
    leaf()
    hooks.profile_end()
    assert "leaf" in asked


def test_a_mark_of_another_type_is_not_compared(hooks: ModuleType) -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            hooks.profile_end()
            raise OSError

        __hash__ = None  # type: ignore[assignment]

    wrapper.mark = Odd()  # type: ignore[attr-defined]
    try:
        counts = measured(hooks, lambda: region(wrapper), region="GENERATED", wrapper="WRAPPER")
    finally:
        del wrapper.mark  # type: ignore[attr-defined]
    assert (hooks.KIND_EAGER, "leaf", "region") in counts


def test_a_profile_may_begin_while_the_former_is_being_told(hooks: ModuleType) -> None:
    begun = []

    class Collected:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            if not begun:
                begun.append(True)
                hooks.profile_begin(classify(hooks), MARK, 10)
                hooks.profile_end()

    kinds = dict.fromkeys((f"f{i}" for i in range(3000)), "GENERATED")
    functions = []
    for name in kinds:
        namespace: dict[str, Any] = {}
        exec(f"def {name}(): pass", namespace)
        functions.append(namespace.pop(name))
    former = gc.get_threshold()
    gc.collect()
    gc.disable()
    hooks.profile_begin(classify(hooks, **kinds), MARK, 0)
    while functions:
        functions.pop()()
    Collected()
    gc.set_threshold(1000)
    gc.enable()
    try:
        records = hooks.profile_end()["records"]
    finally:
        gc.set_threshold(*former)
    assert begun or sys.version_info >= (3, 12)  # there the collector waits for bytecode
    assert sum(code.co_name in kinds for _, code, *_ in records) == 3000
