"""Whatever names a reason says where the documentation explains it, once for each reason."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.cli.explanation.comparison import Compared, Comparison
from graphmend_bc.reporting.page import page_of
from graphmend_bc.reporting.reasons import REASONS
from graphmend_bc.reporting.references import PAGE, codes_in, reference
from graphmend_bc.testing import assert_no_breaks
from tests.processes import ROOT, python

X = torch.ones(2)


def aged(x: torch.Tensor, born: float) -> torch.Tensor:
    x = x + (time.time() - born)
    torch._dynamo.graph_break()
    return x * (time.time() - born)


def shifted(x: torch.Tensor) -> torch.Tensor:
    """A branch that is mended, for which a cheaper strategy is refused."""
    if x.sum() > 0:
        x.mul_(2)
    return x + 1


def sees(lines: Sequence[str]) -> list[str]:
    """The codes to whose sections lines lead."""
    return [line.partition("#")[2] for line in lines if line.startswith(f"See {PAGE}#")]


@pytest.fixture
def report() -> gm.Report:
    with gm.enabled():
        torch.compile(aged, backend="eager")(X, time.time())
        found = gm.report()
    codes = [decline.reason for decline in found.declines]
    assert len(codes) > len({*codes}) > 1  # reasons that come more than once, and several of them
    return found


def declined(report: gm.Report) -> list[str]:
    return [*dict.fromkeys(decline.reason for decline in report.declines)]


def test_every_reason_has_its_anchor() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    anchors = {line.removeprefix("### ") for line in page.splitlines() if line.startswith("### ")}
    assert {reference(code).partition("#")[2] for code in REASONS} == anchors
    assert all(codes_in([f"at m.py: {code}: It says so."]) == [code] for code in REASONS)


def test_what_is_no_code_leads_nowhere() -> None:
    assert codes_in(["in-place", "arm-raises-more", "my-arm-raises", "arms", ""]) == []


def test_a_report_leads_to_each_reason_once(report: gm.Report) -> None:
    assert sees(str(report).splitlines()) == declined(report)
    for decline in report.declines:
        assert sees(str(decline).splitlines()) == [decline.reason]
    assert re.findall(rf"See {PAGE}#([a-z-]+)", report._repr_html_()) == declined(report)


def test_refused_strategies_lead_to_their_reasons() -> None:
    with gm.enabled():
        torch.compile(shifted, backend="eager")(X.clone())
        (mend,) = gm.report().mends
    assert mend.passed_over
    assert sees(str(mend).splitlines()) == codes_in(mend.passed_over)
    page = page_of(gm.report())
    assert all(f'<a href="#reason-{code}">{code}</a>: ' in page for code in codes_in(str(mend)))


def test_an_explanation_does() -> None:
    found = gm.explain(aged)(X, time.time())
    codes = [*dict.fromkeys(decline.reason for decline in found.declines)]
    assert len(codes) > 1
    assert sees(str(found).splitlines()) == codes


def test_the_table_of_explain_does(capsys: pytest.CaptureFixture[str]) -> None:
    found = gm.explain(aged)(X, time.time())
    Comparison([Compared("one", found), Compared("other", found)]).print()
    codes = [*dict.fromkeys(decline.reason for decline in found.declines)]
    assert sees(capsys.readouterr().out.splitlines()) == codes


def test_a_page_has_a_section_for_each_reason(report: gm.Report) -> None:
    page = page_of(report)
    named = re.findall(r'<div id="reason-([a-z-]+)">', page)
    assert {*declined(report)} <= {*named} <= {*codes_in([page])}
    assert len(named) == len({*named})
    for code in named:
        assert f"See <code>{reference(code)}</code>" in page
    assert {*re.findall(r'href="#reason-([a-z-]+)"', page)} <= {*named}
    assert 'id="reasons"' not in page_of(gm.Report())


def test_an_assertion_does() -> None:
    with pytest.raises(AssertionError) as failed:
        assert_no_breaks(aged, X, time.time())
    lines = str(failed.value).splitlines()
    assert sees(lines) == codes_in(lines)


def test_the_notes_of_an_error_do() -> None:
    with gm.enabled(), pytest.raises(torch._dynamo.exc.Unsupported) as failed:
        torch.compile(aged, backend="eager", fullgraph=True)(X, time.time())
    lines = "\n".join(failed.value.__notes__).splitlines()
    assert sees(lines) == codes_in(lines) != []


def test_records_do(caplog: pytest.LogCaptureFixture) -> None:
    with gm.enabled(), caplog.at_level(logging.DEBUG, "graphmend_bc"):
        torch.compile(aged, backend="eager")(X, time.time())
        torch.compile(shifted, backend="eager")(X.clone())
    naming = [said for said in caplog.messages if codes_in([said])]
    assert len(naming) > 2
    assert {record.levelname for record in caplog.records} >= {"DEBUG", "INFO"}
    for said in naming:
        assert all(said.count(reference(code)) == 1 for code in codes_in([said])), said


def test_a_profile_does(report: gm.Report) -> None:
    pytest.importorskip("graphmend_bc._frame_hooks")
    with gm.enabled():
        compiled = torch.compile(aged, backend="eager")
        compiled(X, time.time())
        with gm.profile() as profile:
            compiled(X, time.time())
    lines = profile.table().splitlines()
    named = [code for line in lines for code in re.findall(r"\[([a-z-]+)\]", line)]
    assert sees(lines) == [*dict.fromkeys(named)] != []


PROGRAM = """
import time, torch

def aged(x, born):
    x = x + (time.time() - born)
    return x * (time.time() - born)

def test_aged():
    torch.compile(aged, backend="eager")(torch.ones(2), time.time())

test_aged()
"""


@pytest.mark.slow
def test_commands_do(tmp_path: Path) -> None:
    (tmp_path / "test_program.py").write_text(PROGRAM)
    for command in (["graphmend_bc", "run"], ["pytest", "--graphmend"]):
        said = python(
            "-m", *command, "test_program.py", cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
        )
        assert said.returncode == 0, said.stderr
        lines = (said.stdout + said.stderr).splitlines()
        assert sees(lines) == ["probe-not-fixed"]
        assert sum("probe-not-fixed" in line for line in lines) > 1
