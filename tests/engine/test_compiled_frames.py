"""What a report tells of each compilation: its attempts, graphs, break, and rewritten code."""

from __future__ import annotations

import gc
import json
import os
import pickle
import weakref
from types import CodeType

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.reporting import code_text
from graphmend_bc.reporting.code_text import text_of
from graphmend_bc.reporting.compilations import CompiledFrame
from graphmend_bc.reporting.report import Report
from tests.session.test_forgetting import empty_torchs_own_caches

X = torch.ones(3)


def helper(x):
    if x.sum() > 30:
        x = x * 3
    return x


def stepping(x):
    y = helper(x * 2)
    torch._dynamo.graph_break()
    if y.mean() > 100:
        return y - 1
    return y + 1


def counting(x, seen):
    if x.sum() > 0:
        seen.add("up")
        return x + 1
    return x - 1


@pytest.fixture(autouse=True)
def on():
    gm.reset()
    with gm.enabled(cache=False):
        yield


def lines(function, *texts: str) -> list[int]:
    import inspect

    source, start = inspect.getsourcelines(function)
    return [start + at for text in texts for at, line in enumerate(source) if text in line]


def test_a_break_that_is_left_ends_the_first_of_two_frames() -> None:
    torch.compile(stepping, backend="eager")(X)
    report = gm.report()
    first, second = report.frames
    assert first.function is second.function
    assert (first.site.function, first.operators) == ("stepping", (5,))
    assert [site.lineno for site in first.mended] == lines(helper, "if ")
    (line,) = lines(stepping, "graph_break")
    assert first.break_at == (__file__, line)
    assert first.break_reason.startswith("Call to `torch._dynamo.graph_break()`")
    assert [site.lineno for site in first.left] == [line]
    assert second.site.function == f"stepping, after the break in line {line}"
    assert (second.break_reason, second.break_at, second.left) == ("", None, ())
    assert {change.before.name for change in report.rewrites} == {
        "helper",
        second.site.qualname,
    }


def test_attempts_say_what_they_failed_at_and_how_long_they_took() -> None:
    torch.compile(counting, backend="eager")(X, set())
    (frame,) = gm.report().frames
    assert len(frame.attempts) > 1
    assert [bool(attempt.failed_at) for attempt in frame.attempts][-1] is False
    assert all(attempt.failed_at for attempt in frame.attempts[:-1])
    begins = [attempt.begun_ns for attempt in frame.attempts]
    ends = [attempt.begun_ns + attempt.ns for attempt in frame.attempts]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))
    assert frame.ns == sum(attempt.ns for attempt in frame.attempts) > 0
    (written,) = json.loads(gm.report().to_json())["frames"]
    assert [a["failed_at"] for a in written["attempts"]] == [a.failed_at for a in frame.attempts]


def test_stock_is_told_beside_mending() -> None:
    found = gm.explain(stepping)(X)
    before, after = found.before.frames, found.after.frames
    assert sum(len(frame.operators) for frame in before) == found.before.graph_count
    assert sum(len(frame.operators) for frame in after) == found.after.graph_count
    assert all(not frame.mended for frame in before)
    names = [frame.site.function.partition(",")[0] for frame in before]
    assert {"stepping", "helper"} == set(names)
    assert {change.before.name for change in found.rewrites} >= {"helper"}


def test_nothing_is_left_after_a_reset() -> None:
    torch.compile(stepping, backend="eager")(X)
    gm.reset()
    report = gm.report()
    assert (report.frames, report.rewrites) == ([], [])


def test_the_last_ones_are_kept() -> None:
    torch.compile(stepping, backend="eager")(X)
    known = gm.report()
    report = Report()
    for _ in range(600):
        for frame in known.frames:
            report.note_frame(frame, known.rewritten)
    assert len(report.frames) == 1000
    assert isinstance(report.frames[0], CompiledFrame)
    assert len(report.rewrites) == len(known.rewrites) == 2


def test_bytecode_becomes_text_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        code_text, "text_of", lambda code: made.append(code.co_name) or text_of(code)
    )
    torch.compile(stepping, backend="eager")(X)
    report = gm.report()
    assert (json.loads(report.to_json())["mends"] != [], made) == (True, [])
    changes = report.rewrites
    assert len(changes) == 2
    assert changes == gm.report().rewrites
    assert len(made) == sum(2 + len(change.arms) for change in changes)


def test_a_copy_for_another_process_has_the_texts() -> None:
    torch.compile(stepping, backend="eager")(X)
    report = gm.report()
    copy = pickle.loads(pickle.dumps(report))
    assert [c.after for c in copy.rewrites] == [c.after for c in report.rewrites] != []


@pytest.mark.slow
def test_what_was_made_of_many_plans_is_made_once_more() -> None:
    torch.compile(stepping, backend="eager")(X)
    before = gm.report().rewrites
    gm.reset()
    torch._dynamo.reset()
    torch.compile(stepping, backend="eager")(X)
    report, recent = gm.report(), session._session.state.rewrites.recent
    recent.clear()
    gc.collect()
    assert [c.before.name for c in report.rewrites] == [c.before.name for c in before]
    assert [c.after for c in report.rewrites] == [c.after for c in before]
    assert not recent


@pytest.mark.parametrize("asked", [False, True])
def test_what_is_gone_has_the_text_that_it_was_asked_for(asked: bool) -> None:
    def compiled() -> weakref.ref[CodeType]:
        scope = {}
        exec("def fleeting(x):\n    return x + 1 if x.sum() > 0 else x\n", scope)
        torch.compile(scope["fleeting"], backend="eager")(X)
        return weakref.ref(scope["fleeting"].__code__)

    code, report = compiled(), gm.report()
    assert not asked or [change.before.name for change in report.rewrites] == ["fleeting"]
    gm.reset()
    torch._dynamo.reset()
    empty_torchs_own_caches()
    for _ in range(3):  # what a finaliser lets go is found by the next collection
        gc.collect()
    assert code() is None
    assert [change.before.name for change in report.rewrites] == ["fleeting"] * asked
    report.to_html(os.devnull)
