"""enable, disable, enabled, leave_alone, report, reset, explain: the plain case and bad input."""

from __future__ import annotations

import json
import logging
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch._dynamo import convert_frame
from torch._dynamo.exc import InternalTorchDynamoError
from torch._dynamo.guards import GuardManagerWrapper

import graphmend_bc as gm
from graphmend_bc import session, versions
from graphmend_bc.canary import check
from graphmend_bc.versions import MissingSeamError, UnsupportedVersionError

X = torch.tensor([1.0, 2.0])


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + 1


def writing(x: torch.Tensor) -> torch.Tensor:
    if x.sum() < 0:
        x.add_(1)
    return x + 1


def compiled_whole(function: object) -> bool:
    """Whether torch.compile makes one graph of it."""
    torch._dynamo.reset()
    try:
        torch.compile(function, backend="eager", fullgraph=True)(X)  # type: ignore[call-overload]
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError):
        return False
    return True


def test_enable_is_idempotent_and_the_handle_removes_it() -> None:
    stock = convert_frame.compile_frame
    handle = gm.enable()
    assert gm.enable() is handle
    assert gm.is_enabled()
    assert compiled_whole(branching)
    handle.remove()
    assert not gm.is_enabled()
    assert convert_frame.compile_frame is stock
    assert not compiled_whole(branching)


def test_a_stale_handle_does_nothing() -> None:
    stale = gm.enable()
    gm.disable()
    gm.enable()
    stale.remove()
    assert gm.is_enabled()


def test_enabled_as_block_and_as_decorator() -> None:
    with gm.enabled():
        assert compiled_whole(branching)
    assert not gm.is_enabled()

    @gm.enabled()
    def inside() -> bool:
        return compiled_whole(branching)

    assert inside()
    assert not gm.is_enabled()


def test_enabled_inside_enable_leaves_it_on() -> None:
    gm.enable()
    with gm.enabled():
        pass
    assert gm.is_enabled()


def test_enabled_puts_settings_back() -> None:
    def remembers() -> bool:
        return session._session.state.remember

    gm.enable()
    with gm.enabled(cache=False):
        assert not remembers()
        with gm.enabled(cache=True):
            assert remembers()
        assert not remembers()
        with pytest.raises(LookupError), gm.enabled(cache=True):
            raise LookupError
        assert not remembers()
    assert remembers()
    gm.enable(cache=False)
    with gm.enabled():
        assert remembers()
    assert not remembers()
    gm.disable()
    with gm.enabled(cache=True):
        pass
    assert not remembers()
    assert not gm.is_enabled()


def test_every_seam_is_put_back() -> None:
    from torch._dynamo import output_graph, symbolic_convert

    def seams() -> list[object]:
        return [
            convert_frame.compile_frame,
            convert_frame.trace_frame,
            symbolic_convert.InliningInstructionTranslator.__init__,
            output_graph.OutputGraph.call_user_compiler,
            output_graph.OutputGraph.compile_subgraph,
            symbolic_convert.compare_op_handlers["is"],
            torch._dynamo.reset,
        ]

    before = seams()
    gm.enable()
    assert all(a is not b for a, b in zip(before, seams(), strict=True))
    gm.disable()
    assert all(a is b for a, b in zip(before, seams(), strict=True))


@pytest.fixture
def where_alone() -> Iterator[None]:
    with gm.config.patch(strategies=("where",)):
        yield


@pytest.mark.usefixtures("where_alone")
def test_report_and_reset() -> None:
    gm.enable()
    torch.compile(branching, backend="eager")(X)
    torch.compile(writing, backend="eager")(X)
    report = gm.report()
    (mend,) = report.mends
    assert (mend.strategy, mend.gb_id, mend.site.qualname) == ("where", "GB0170", "branching")
    (decline,) = report.declines
    assert (decline.reason, decline.gb_id) == ("arm-mutates-tensor", "GB0170")
    assert decline.hints
    gm.reset()
    assert (gm.report().mends, gm.report().declines) == ([], [])
    assert len(report.mends) == 1


def test_dynamo_reset_forgets_too_and_enable_survives_it() -> None:
    gm.enable()
    assert compiled_whole(branching)
    torch.compiler.reset()
    assert gm.report().mends == []
    assert compiled_whole(branching)


@pytest.mark.usefixtures("where_alone")
def test_report_as_json_and_page(tmp_path: Path) -> None:
    gm.enable()
    torch.compile(branching, backend="eager")(X)
    torch.compile(writing, backend="eager")(X)
    report = gm.report()
    data = json.loads(report.to_json())
    assert [m["strategy"] for m in data["mends"]] == ["where"]
    assert [d["reason"] for d in data["declines"]] == ["arm-mutates-tensor"]
    page = tmp_path / "report.html"
    report.to_html(page)
    text = page.read_text()
    assert "<dt>mended</dt><dd>1</dd>" in text
    assert "arm-mutates-tensor" in text
    with pytest.raises(OSError, match=r"No such file"):
        report.to_html(tmp_path / "no such folder" / "report.html")


@pytest.mark.usefixtures("where_alone")
def test_fullgraph_shows_dynamos_error_first_and_our_reason_after() -> None:
    gm.enable()
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"^Data-dependent branching") as caught:
        torch.compile(writing, backend="eager", fullgraph=True)(X)
    (note,) = caught.value.__notes__
    assert "arm-mutates-tensor: An arm changes a tensor in place." in note
    assert "test_session.py:" in note


def test_leave_alone() -> None:
    @gm.leave_alone(reason="measured by hand")
    def marked(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            x = x * 2
        return x + 1

    gm.enable()
    assert not compiled_whole(marked)
    assert [d.reason for d in gm.report().declines] == ["left-alone"]


def test_leave_alone_wants_a_function() -> None:
    with pytest.raises(TypeError, match="has no Python bytecode: it is of type builtin_function"):
        gm.leave_alone(len)


def test_user_function_objects_are_untouched() -> None:
    code = branching.__code__
    gm.enable()
    compiled_whole(branching)
    assert branching.__code__ is code
    assert not [name for name in branching.__globals__ if name.startswith("__gm_")]


@pytest.mark.usefixtures("where_alone")
def test_explain_counts_both_arms_and_touches_neither_session_nor_arguments() -> None:
    gm.enable()
    compiled_whole(branching)
    before, x = gm.report(), X.clone()
    explanation = gm.explain(writing)(x)
    assert explanation.before.graph_break_count == explanation.after.graph_break_count == 1
    assert [d.reason for d in explanation.declines] == ["arm-mutates-tensor"]
    explanation = gm.explain(branching)(x)
    assert (explanation.before.graph_count, explanation.after.graph_count) == (2, 1)
    assert (explanation.before.graph_break_count, explanation.after.graph_break_count) == (1, 0)
    assert "where" in str(explanation)
    assert gm.is_enabled()
    assert gm.report().mends != [] or before.mends == []
    assert torch.equal(x, X)


@pytest.mark.usefixtures("where_alone")
def test_explain_counts_frames_that_stock_gives_up() -> None:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for i in range(3):
            if x.sum() > 3:
                break
            x = x + i
        return x

    explanation = gm.explain(loop)(X)
    # Up to torch 2.11 the loop is cut into graphs, later its frame is skipped.
    assert explanation.before.graph_break_count or explanation.before.skipped_frames
    assert {d.reason for d in explanation.declines} == {"loop-exit"}


@pytest.mark.usefixtures("where_alone")
def test_unknown_config_name_is_an_error() -> None:
    with pytest.raises(AttributeError, match="where_op_limits"):
        gm.config.where_op_limits = 3
    with gm.config.patch(where_op_limit=0):
        gm.enable()
        assert not compiled_whole(branching)
    assert [d.reason for d in gm.report().declines] == ["arm-too-dear"]


@pytest.mark.parametrize(
    ("found", "named"), [("2.10.1", "2.10"), ("2.12.0+cu130", "2.12"), ("1.13.1", "1.13")]
)
def test_a_torch_that_is_too_old_or_between_is_refused(
    found: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "__version__", found)
    sentence = re.escape(
        f"does not know torch {named}; it supports torch 2.11, 2.13 to 2.15. Install one"
    )
    for _ in range(2):
        with pytest.raises(UnsupportedVersionError, match=sentence):
            gm.enable()
        assert not gm.is_enabled()


@pytest.mark.slow
def test_a_newer_torch_is_tried_unless_versions_are_strict(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch, "__version__", "3.0.0+cpu")
    sentence = (
        rf"does not know torch 3\.0; it supports torch {versions.known_torch()}\. Install one"
    )
    with gm.config.patch(strict_versions=True):
        with pytest.raises(UnsupportedVersionError, match=sentence):
            gm.enable()
        assert not gm.is_enabled()
    versions._warn.cache_clear()
    check.bypassed.cache_clear()
    for _ in range(2):
        gm.enable()
        assert compiled_whole(branching)
        gm.disable()
    (record,) = [r for r in caplog.records if r.name == "graphmend_bc"]
    assert "does not know torch 3.0.0+cpu" in record.getMessage()
    assert "without" not in record.getMessage()


def test_a_seam_that_a_newer_torch_goes_around_turns_off_what_rests_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "__version__", "3.0.0")
    lost = {"TensorVariable.hash_impl (frames.ask_identity)": "goes around torch.hash"}
    monkeypatch.setattr(check, "bypassed", lambda: lost)
    with gm.enabled():
        torch.compile(branching, backend="eager")(X)
        assert {mend.strategy for mend in gm.report().mends}.isdisjoint({"where", "cond"})
    lost["OutputGraph.__init__ (frames.output_graph)"] = "goes around torch.init"
    with pytest.raises(MissingSeamError, match=r"torch 3\.0\.0, which goes around torch\.init"):
        gm.enable()
    assert not gm.is_enabled()


def test_unknown_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions.sys, "version_info", (3, 15, 0, "final", 0))
    with pytest.raises(UnsupportedVersionError, match=r"does not know Python 3\.15"):
        versions.check_versions()


def test_a_free_threaded_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sysconfig.get_config_vars(), "Py_GIL_DISABLED", 1)
    with pytest.raises(UnsupportedVersionError, match=r"^graphmend_bc relies on the GIL, [^.]*\."):
        gm.enable()
    assert not gm.is_enabled()


def test_switched_off_by_config() -> None:
    with gm.config.patch(enabled=False):
        gm.enable()
        assert not compiled_whole(branching)


def test_failure_inside_us_ends_in_stock_behaviour_with_one_reason(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from graphmend_bc.dynamo.predication import site_tracer

    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(site_tracer, "check_runs_untaken", fail)
    gm.enable()
    with caplog.at_level(logging.WARNING, "graphmend_bc"):
        assert torch.equal(torch.compile(branching, backend="eager")(X), branching(X))
    (record,) = [r for r in caplog.records if r.name == "graphmend_bc"]
    assert "planted" in record.getMessage()
    assert "branching" in record.getMessage()


def test_guards_that_fail_leave_the_frame_to_stock(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stock, checked = GuardManagerWrapper.check, list[object]()

    def check(self: GuardManagerWrapper, scope: dict[str, object]) -> bool:
        checked.append(self)
        return len(checked) > 2 and stock(self, scope)

    monkeypatch.setattr(GuardManagerWrapper, "check", check)
    gm.enable()
    compiled = torch.compile(branching, backend="eager")
    with gm.config.patch(failed_check_limit=1), caplog.at_level(logging.WARNING, "graphmend_bc"):
        for x in (X, -X, X, -X):
            assert torch.equal(compiled(x), branching(x))
    (record,) = [r for r in caplog.records if r.name == "graphmend_bc"]
    assert "Guard failed" in record.getMessage()
    assert "branching" in record.getMessage()
    assert len(checked) > 2


def test_errors_of_a_function_that_chooses_guards_are_the_users() -> None:
    def choose(guards: object) -> list[bool]:
        raise LookupError("mine")

    gm.enable()
    with pytest.raises(InternalTorchDynamoError, match="mine"):
        torch.compile(branching, backend="eager", options={"guard_filter_fn": choose})(X)


def test_keyboard_interrupt_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmend_bc.dynamo.predication import site_tracer

    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(site_tracer, "check_runs_untaken", interrupt)
    gm.enable()
    with pytest.raises(KeyboardInterrupt):
        torch.compile(branching, backend="eager")(X)


def test_unknown_public_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'mend'"):
        gm.mend  # type: ignore[attr-defined]  # noqa: B018
    assert {"enable", "config", "attach", "explain"} <= set(dir(gm))


def test_what_dynamo_kept_of_builtins_before_is_not_used() -> None:
    class Model: ...

    model = Model()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2 if callable(model) else x * 3
        print(x.sum())
        return y

    gm.disable()
    assert torch.equal(torch.compile(f, backend="eager")(X), X * 3)
    torch._dynamo.reset()
    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        assert torch.equal(compiled(X), X * 3)
        assert gm.report().mends
        Model.__call__ = lambda self: 0  # type: ignore[attr-defined]
        assert torch.equal(compiled(X), X * 2)
