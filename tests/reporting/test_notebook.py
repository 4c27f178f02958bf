"""What a console and a notebook show of a report by itself."""

from __future__ import annotations

import tomllib

import torch

import graphmend_bc as gm
from tests.processes import ROOT


def half_mended(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    torch._dynamo.graph_break()
    return y + 1


def test_a_report_is_one_line_and_a_table() -> None:
    with gm.enabled():
        torch.compile(half_mended, backend="eager")(torch.ones(2))
        report = gm.report()
    assert repr(report) == f"<Report: {report.summary()}>"
    assert repr(report).startswith("<Report: 1 mended, 1 declined; 2 graphs in 2 compilations, ")
    shown = report._repr_html_()
    assert shown.count("<tr>") == 2
    assert "<td>mended</td>" in shown
    (decline,) = report.declines
    assert f"<td>{decline.reason}</td>" in shown


def test_an_explanation_too_and_text_is_escaped() -> None:
    found = gm.explain(half_mended)(torch.ones(2))
    summary = "3 graphs and 2 breaks before, 2 and 1 after; 1 mended, 1 declined"
    assert repr(found) == f"<Explanation: {summary}>"
    shown = gm.explain(lambda x: x if x.sum() > 0 else x + 1)(torch.ones(2))._repr_html_()
    assert "&lt;lambda&gt;" in shown
    assert "<lambda>" not in shown


def test_nothing_found_needs_no_table() -> None:
    assert gm.Report()._repr_html_() == f"<p>{gm.Report().summary()}</p>"


def test_the_extra_for_pages_has_what_pages_need() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert any(need.startswith("jinja2") for need in extras["optional-dependencies"]["cli"])
