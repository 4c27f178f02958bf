"""What a profile counts, and what it says about it. Times are only compared with each other."""

from __future__ import annotations

import contextlib
import gc
import json
import math
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback

import graphmend_bc as gm
from graphmend_bc.profiling.costs import BreakCost

hooks = pytest.importorskip("graphmend_bc._frame_hooks")

X = torch.tensor([1.0, 2.0])


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    yield
    assert not hooks.installed()
    assert get_eval_frame_callback() is None


def tag(value: object) -> None:
    for _ in range(2):
        spell(value)


def spell(value: object) -> str:
    return f"<{value}>"


@torch._dynamo.disable
def log(value: object) -> None:
    tag(value)


def two_breaks(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    log("first")
    x = x + 1
    n = x.sum().item()
    return x * n


def line_of(function: Callable[..., Any], offset: int) -> int:
    return function.__code__.co_firstlineno + offset


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    options.setdefault("backend", "aot_eager")
    return torch.compile(function, **options)  # type: ignore[no-any-return]


def names(cost: BreakCost) -> dict[str, int]:
    return {frame.function: frame.calls for frame in cost.frames}


def test_breaks_that_were_compiled_before() -> None:
    step = compiled(two_breaks)
    step(X)
    with gm.profile() as prof:
        for _ in range(5):
            step(X)
    first, second = sorted(prof.costs.breaks, key=lambda cost: cost.lineno)
    assert (first.function, first.filename) == ("two_breaks", __file__)
    assert (first.lineno, second.lineno) == (line_of(two_breaks, 2), line_of(two_breaks, 4))
    assert (first.calls, second.calls) == (5, 5)
    assert "disable" in first.reason
    assert "Tensor.item" in second.reason
    assert names(first) == {"log": 5, "tag": 5, "spell": 10}
    assert names(second) == {}
    assert (first.host_reads, first.synchronisations, prof.costs.kernels) == (None, None, None)
    assert sum(graph.calls for graph in prof.costs.graphs) == 15
    assert {graph.function for graph in prof.costs.graphs} == {"two_breaks"}
    assert prof.costs.compilations == ()


def test_own_and_total_times_add_up() -> None:
    step = compiled(two_breaks)
    step(X)
    with gm.profile() as prof:
        step(X)
    first = min(prof.costs.breaks, key=lambda cost: cost.lineno)
    times = {frame.function: (frame.own_ns, frame.total_ns) for frame in first.frames}
    (own, total), (spell_own, spell_total) = times["tag"], times["spell"]
    assert spell_own == spell_total > 0
    assert total == own + spell_total
    assert first.total_ns == first.own_ns + times["log"][1]
    assert 0 < first.total_ns < prof.costs.wall_ns
    assert prof.costs.overhead_ns > 0
    assert [cost.total_ns for cost in prof.costs.breaks] == sorted(
        (cost.total_ns for cost in prof.costs.breaks), reverse=True
    )


def test_a_mended_program_has_no_breaks() -> None:
    def speaks(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        print("twice")
        return x + 1

    gm.enable()
    step = compiled(speaks)
    with gm.profile() as prof:
        step(X)
        step(X)
    assert prof.costs.breaks == ()
    assert [(graph.function.rpartition(".")[2], graph.calls) for graph in prof.costs.graphs] == [
        ("speaks", 2)
    ]
    assert sum(found.calls for found in prof.costs.compilations) > 0
    assert "no graph breaks" in prof.table()


def test_our_reason_for_leaving_a_break_is_named() -> None:
    def reads(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        return x + len({float(x @ x): 1})

    gm.enable()
    step = compiled(reads)
    step(X)
    [decline] = gm.report().declines
    with gm.profile() as prof:
        step(X)
    [cost] = prof.costs.breaks
    assert cost.decline == decline.reason
    assert f"[{decline.reason}]" in prof.table()


def test_a_frame_that_dynamo_left_as_it_is() -> None:
    def loops(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x + 1
            if x.sum() > 20:
                break
        return x

    step = compiled(loops)
    step(X)
    with gm.profile() as prof:
        step(X)
        step(X)
    [cost] = prof.costs.breaks
    assert cost.reason.startswith("Dynamo left the whole frame as it is")
    assert (cost.lineno, cost.calls, cost.own_ns) == (line_of(loops, 0), 2, 0)
    assert {name.rpartition(".")[2]: calls for name, calls in names(cost).items()} == {"loops": 2}


def test_frames_outside_of_compiled_regions_are_not_measured() -> None:
    def whole(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    step = compiled(whole)
    step(X)
    with gm.profile() as prof:
        tag("outside")
        step(X)
        tag("outside")
    assert prof.costs.breaks == ()
    assert prof.costs.measured_calls == 2  # the generated code and its graph


def test_recursion_counts_each_call_and_the_outermost_time() -> None:
    def down(n: int) -> int:
        return n if n == 0 else down(n - 1)

    @torch._dynamo.disable
    def eagerly() -> None:
        down(20)

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        eagerly()
        return x * 2

    call = compiled(step)
    call(X)
    with gm.profile() as prof:
        call(X)
    [cost] = prof.costs.breaks
    frames = {frame.function.rpartition(".")[2]: frame for frame in cost.frames}
    assert frames["down"].calls == 21
    assert frames["down"].own_ns == frames["down"].total_ns < frames["eagerly"].total_ns


def test_what_a_deoptimised_frame_runs_eagerly() -> None:
    def refuses(x: torch.Tensor) -> torch.Tensor:
        x = x * 2
        if torch.isnan(x).any():
            raise ValueError(f"not a number in {tuple(x.shape)}")
        return x

    gm.enable()
    step = compiled(refuses, fullgraph=True)
    step(X)
    with gm.profile() as prof, pytest.raises(ValueError, match="not a number"):
        step(X * float("nan"))
    kinds = {(record.kind, record.code.co_name) for record in prof._measured.records}
    assert ("eager", "refuses") in kinds
    assert sum(graph.calls for graph in prof.costs.graphs) == 1


def test_exceptions_and_generators_inside_a_region() -> None:
    def numbers() -> Iterator[int]:
        try:
            yield 1
            yield 2
        finally:
            spell("closed")

    @torch._dynamo.disable
    def fails() -> None:
        for number in numbers():
            raise KeyError(number)

    def step(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        fails()
        return x * 2

    call = compiled(step)
    for _ in range(2):
        with gm.profile() as prof, pytest.raises(KeyError):
            call(X)
    counts = {record.code.co_name: record.calls for record in prof._measured.records}
    assert counts["fails"] == 1
    assert counts["numbers"] == 3  # made, run to its first value, closed
    assert counts["spell"] == 1


def test_threads_are_measured_together() -> None:
    step = compiled(two_breaks)
    step(X)
    with gm.profile() as prof:
        threads = [threading.Thread(target=lambda: [step(X) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    first = min(prof.costs.breaks, key=lambda cost: cost.lineno)
    assert (first.calls, names(first)) == (80, {"log": 80, "tag": 80, "spell": 160})
    assert len({span.thread for span in prof._measured.spans}) == 4


def test_an_attached_function_is_a_compiled_region() -> None:
    with gm.attach(two_breaks, backend="aot_eager"):
        two_breaks(X)
        with gm.profile() as prof:
            two_breaks(X)
    assert {cost.lineno for cost in prof.costs.breaks} == {
        line_of(two_breaks, 2),
        line_of(two_breaks, 4),
    }


def test_the_table_has_the_dearest_break_first_and_says_what_measuring_took() -> None:
    step = compiled(two_breaks)
    with gm.profile() as prof:
        step(X)
    lines = prof.table().splitlines()
    dearest = prof.costs.breaks[0]
    assert lines[0].split() == ["cost", "calls", "per", "call", "reads", "waits", "graph", "break"]
    assert lines[1].endswith(f"{dearest.filename}:{dearest.lineno} in two_breaks")
    assert lines[-1].startswith("profiled: ")
    assert f"measuring {prof.costs.measured_calls} calls took about" in lines[-1]
    assert "and 1 more break\n" in prof.table(limit=1)


def test_json_has_all_figures() -> None:
    step = compiled(two_breaks)
    with gm.profile() as prof:
        step(X)
    data = json.loads(prof.to_json())
    assert (data["schema"], data["provenance"]["torch"]) == (1, torch.__version__)
    assert data["wall_ns"] == prof.costs.wall_ns
    assert [cost["total_ns"] for cost in data["breaks"]] == [
        cost.total_ns for cost in prof.costs.breaks
    ]
    assert data["breaks"][0]["frames"] == [] or "own_ns" in data["breaks"][0]["frames"][0]
    assert {found["function"] for found in data["compilations"]} == {"", "two_breaks"}


def test_a_chrome_trace_of_our_own(tmp_path: Path) -> None:
    step = compiled(two_breaks)
    step(X)
    with gm.profile() as prof:
        step(X)
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    events = trace["traceEvents"]
    assert trace["otherData"]["schema"] == 1
    assert trace["otherData"]["provenance"]["graphmend_bc"] == gm.__version__
    assert len(events) == prof.costs.measured_calls
    by_name: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_name.setdefault(event["name"], []).append(event)
    assert len(by_name["graph two_breaks"]) == 3
    [outer], spelled = by_name["eager tag"], by_name["eager spell"]
    for inner in spelled:
        assert outer["ts"] <= inner["ts"]
        rounding = 2 * math.ulp(outer["ts"])  # microseconds since 1970 leave few digits behind
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + rounding
    assert outer["args"]["because of"] == f"{__file__}:{line_of(two_breaks, 2)}"


def test_with_torchs_profiler_reads_are_counted_and_the_traces_joined(tmp_path: Path) -> None:
    step = compiled(two_breaks)
    step(X)
    with gm.profile(trace=True) as prof:
        X.sum().item()  # outside of any region
        for _ in range(3):
            step(X)
    reads = {cost.lineno: cost.host_reads for cost in prof.costs.breaks}
    assert reads == {line_of(two_breaks, 2): 0, line_of(two_breaks, 4): 3}
    assert prof.costs.kernels == 0
    prof.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    [graph, *_] = [event for event in events if event["name"] == "graph two_breaks"]
    inside = [
        event["name"]
        for event in events
        if event.get("cat") == "cpu_op" and graph["ts"] <= event["ts"] <= graph["ts"] + graph["dur"]
    ]
    assert "aten::mul" in inside


def test_calls_past_the_limit_are_counted_but_not_kept(tmp_path: Path) -> None:
    step = compiled(two_breaks)
    step(X)
    with gm.profile(call_limit=4) as prof:
        step(X)
    assert len(prof._measured.spans) == 4
    assert prof.costs.dropped_calls == prof.costs.measured_calls - 4 > 0
    assert "are counted above but not in the trace" in prof.table()


def test_one_profile_at_a_time() -> None:
    with (
        gm.profile(),
        pytest.raises(RuntimeError, match="A profile is running already"),
        gm.profile(),
    ):
        pass


def test_figures_before_the_end_are_refused() -> None:
    with gm.profile() as prof, pytest.raises(RuntimeError, match="block of"):
        prof.table()


def test_an_exception_in_the_block_goes_on_and_the_figures_are_there() -> None:
    step = compiled(two_breaks)

    def fails() -> None:
        step(X)
        raise OSError("from the block")

    with pytest.raises(OSError, match="from the block"), gm.profile() as prof:
        fails()
    assert len(prof.costs.breaks) == 2


def test_without_the_extension_it_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphmend_bc._frame_hooks", None)
    monkeypatch.delattr(gm, "_frame_hooks", raising=False)
    with pytest.raises(ImportError, match=r"profile\(\) needs the C extension"), gm.profile():
        pass


@pytest.mark.slow
def test_rounds_leave_reference_counts_level() -> None:
    step = compiled(two_breaks)
    step(X)
    things = [two_breaks.__code__, tag.__code__, spell.__code__, hooks, X]

    def level() -> list[int]:
        gc.collect()
        return [sys.getrefcount(thing) for thing in things]

    def round_() -> None:
        with gm.profile():
            step(X)

    for _ in range(3):
        round_()
    before = level()
    for _ in range(300):
        round_()
    # What an earlier test has left may go meanwhile; a reference of each round would be 300.
    assert all(abs(now - then) < 5 for now, then in zip(level(), before, strict=True))


def test_failed_checks_are_told_with_their_place_and_cost() -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        if (x > 9).any():
            raise ValueError
        return x + 1

    with gm.enabled():
        compiled = torch.compile(step, backend="eager")
        compiled(torch.ones(2))
        with gm.profile() as prof:
            for number in range(6):
                with contextlib.suppress(ValueError):
                    compiled(torch.full((2,), 10.0 if number % 2 else 1.0))
    (found,) = prof.costs.failed_checks
    assert (found.calls, found.failed) == (6, 3)
    assert found.rerun_ns > 0
    assert found.lineno == step.__code__.co_firstlineno + 1
    table = prof.table()
    assert "no graph breaks" not in table
    assert "3 (50.0%)" in table
    assert f"{__file__}:{found.lineno}" in table


def test_what_guards_call_has_no_line() -> None:
    """Neither Python made of guards, nor what is computed for them, nor what keeps the draws."""

    def crop(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = x[:, : lengths.max().item()] * 2
        log("cropped")
        return x + random.random() if x.shape[0] > 4 else x

    lengths = torch.tensor([2, 3])
    for options in ({}, {"dynamic": True}):
        torch._dynamo.reset()
        with gm.enabled():
            step = torch.compile(crop, backend="eager", **options)
            with gm.profile() as prof:
                for rows in range(2, 8):
                    step(torch.ones(rows, 5), lengths + rows % 2)
            assert any(mend.strategy == "hoist" for mend in gm.report().mends)
        frames = {frame.function for cost in prof.costs.breaks for frame in cost.frames}
        assert frames >= {"tag", "spell"}
        assert frames <= {"tag", "spell", "log", crop.__qualname__}
