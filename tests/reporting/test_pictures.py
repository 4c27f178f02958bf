"""The pictures of a page: chains of graphs, control flow, histories; and a page without them."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from types import CodeType
from xml.etree import ElementTree

import pytest

import graphmend_bc as gm
from graphmend_bc.reporting.check_history import CheckHistory
from graphmend_bc.reporting.code_text import CodeChange, Rewritten, text_of
from graphmend_bc.reporting.compilations import Attempt, CompiledFrame
from graphmend_bc.reporting.outcomes import Outcome
from graphmend_bc.reporting.page import page_of
from graphmend_bc.reporting.page import svg as shapes
from graphmend_bc.reporting.page.chains import chains_of
from graphmend_bc.reporting.page.flow_graph import flow_graph
from graphmend_bc.reporting.page.sparkline import sparkline
from graphmend_bc.reporting.page.timeline import Timeline
from graphmend_bc.reporting.report import Decline, Mend, Report
from graphmend_bc.runtime import Site, identity_of
from tests.processes import python

HOSTILE = "</svg><script>alert('x')</script>"
NAMESPACE = "{http://www.w3.org/2000/svg}"

KEPT: list[CodeType] = []


def code_of(name: str = "f") -> CodeType:
    KEPT.append(compile("pass", "m.py", "exec").replace(co_name=name, co_qualname=name))
    return KEPT[-1]


def site_at(line: int, code: CodeType) -> Site:
    return Site.of(code, "CALL", line, line)


def frame_of(code: CodeType, **known: object) -> CompiledFrame:
    attempts = (Attempt("a break", 0, 1000), Attempt("", 1000, 3000))
    return CompiledFrame(site_at(1, code), identity_of(code), attempts, **known)


def drawn(picture: str, kind: str) -> list[ElementTree.Element]:
    """The shapes of a kind in a picture; it must be well-formed."""
    root = ElementTree.fromstring(picture)
    return [shape for shape in root.iter() if kind in shape.get("class", "").split()]


def looping(x, ys):
    for y in ys:
        if x and y:
            continue
        try:
            x = y / x
        except ValueError:
            break
        while x > 3:
            x -= 1
    return x


def test_control_flow_goes_down_but_for_loops() -> None:
    pytest.importorskip("fast_sugiyama")
    text = text_of(looping.__code__)
    picture = flow_graph(text, {text.instructions[0].offset})
    blocks = drawn(picture, "block")
    assert len(blocks) == len(text.blocks)
    assert len(drawn(picture, "changed")) == 1
    assert len(drawn(picture, "way")) == sum(len(block.ways) for block in text.blocks)
    tops = [int(block.get("y", "")) for block in blocks]
    assert min(tops) == tops[0] < min(tops[1:])
    places = {(block.get("x"), block.get("y")) for block in blocks}
    assert len(places) == len(blocks)
    for one in blocks:
        for other in blocks:
            assert one is other or apart(one, other), (one.attrib, other.attrib)


def apart(one: ElementTree.Element, other: ElementTree.Element) -> bool:
    a, b = ([int(e.get(k, "")) for k in ("x", "y", "width", "height")] for e in (one, other))
    beside = a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0]
    return beside or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1]


def test_nothing_is_logged() -> None:
    pytest.importorskip("fast_sugiyama")
    done = python("-c", LOGGING)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


LOGGING = """
import logging
logging.basicConfig(level=1)
from graphmend_bc.reporting.code_text import text_of
from graphmend_bc.reporting.page.flow_graph import flow_graph
print("svg" in flow_graph(text_of(logging.getLevelName.__code__), ()))
"""


def test_what_was_changed_is_drawn_of_a_long_block() -> None:
    pytest.importorskip("fast_sugiyama")
    scope: dict[str, object] = {}
    exec("def f(x):\n" + "    x = x + 1\n" * 20 + "    return x", scope)
    text = text_of(scope["f"].__code__)
    for place in (0, 30, len(text.instructions) - 1):
        picture = flow_graph(text, {text.instructions[place].offset})
        assert len(drawn(picture, "changed")) == 1


def test_one_block_and_too_many() -> None:
    pytest.importorskip("fast_sugiyama")
    assert len(drawn(flow_graph(text_of((lambda x: x).__code__), ()), "block")) == 1
    scope: dict[str, object] = {}
    exec("def f(x):\n" + "    if x: x = x + 1\n" * 40 + "    return x", scope)
    assert flow_graph(text_of(scope["f"].__code__), ()) == ""


def test_a_chain_as_it_follows_from_what_was_mended() -> None:
    code = code_of()
    mended = site_at(4, code)
    frame = frame_of(
        code,
        operators=(7,),
        break_reason="Call to print\n  Explanation",
        break_at=("m.py", 9),
        mended=(mended, site_at(5, code)),
    )
    (chain,) = chains_of([frame], {mended: "Data-dependent branching"})
    assert [link.kind for link in chain.before] == ["graph", "break", "graph", "break"]
    assert [link.kind for link in chain.after] == ["graph", "break"]
    assert chain.before[1].lines == ("break in line 4 of m.py", "Data-dependent branching")
    assert chain.after[0].lines == ("graph of 7 operators", "line 4 mended", "line 5 mended")
    assert chain.after[1].lines == ("break in line 9 of m.py", "Call to print")
    assert not chain.is_measured


def test_a_chain_that_was_measured_and_the_last_compilation_counts() -> None:
    code, inlined = code_of(), code_of("helper")
    stock = [
        frame_of(code, operators=(2,), break_reason="generic_jump", break_at=("m.py", 4)),
        frame_of(inlined, operators=(1,), break_reason="why", break_at=None),
    ]
    frames = [frame_of(code, skipped=True), frame_of(code, operators=(3,))]
    breaks = {site_at(4, code): "Data-dependent branching"}
    chain, other = chains_of(frames, breaks, stock)
    assert chain.is_measured
    assert chain.before[1].lines[1] == "Data-dependent branching"
    assert [link.lines[0] for link in chain.after] == ["graph of 3 operators"]
    assert other.name == "helper"
    assert other.after[0].lines == ("part of the graphs of its callers",)


def test_long_chains_are_cut_and_text_is_escaped() -> None:
    pytest.importorskip("drawsvg")
    code = code_of()
    sites = [site_at(line, code) for line in range(1, 40)]
    frame = frame_of(code, operators=(1,), mended=tuple(sites))
    (chain,) = chains_of([frame], dict.fromkeys(sites, HOSTILE))
    before, after = chain.pictures
    assert len(drawn(before, "break")) == 5
    assert [shape.tag for shape in drawn(before, "more")] == [f"{NAMESPACE}rect"]
    assert "<script" not in before + after
    report = Report(mends=[Mend("where", site, HOSTILE) for site in sites], frames=[frame])
    assert "<script>alert" not in page_of(report)


def test_checks_that_failed_over_time() -> None:
    history = CheckHistory()
    for call in (1, 3, 100, 100):
        history.note(call)
    assert history.width == 4
    assert history.spread(110, before=10) == [(11, 14, 2), (107, 110, 2)]
    assert sum(history.counts) == 4


def test_a_history_of_failed_checks_as_bars() -> None:
    pytest.importorskip("drawsvg")
    site = site_at(3, code_of())
    known = Outcome(site, 480, 3, 0, failed_in=((1, 1, 2), (241, 480, 12)))
    bars = drawn(sparkline([known]), "failed")
    heights = [int(bar.get("height", "")) for bar in bars]
    assert len(bars) == 1 + 12
    assert heights[0] == max(heights) > heights[1] >= 2
    assert sparkline([Outcome(site, 480, 0, 0)]) == ""


def test_the_timeline() -> None:
    first, second = frame_of(code_of(), operators=(1,)), frame_of(code_of("g"), skipped=True)
    timeline = Timeline.of([first, second])
    assert timeline is not None
    assert [line.outcome for line in timeline.lines] == ["1 graph", "left to eager Python"]
    bars = timeline.lines[0].bars
    assert [(bar.left, bar.width, bar.failed_at) for bar in bars] == [
        (0, 25, "a break"),
        (25, 75, ""),
    ]
    assert Timeline.of([]) is None
    many = Timeline.of([frame_of(code_of()) for _ in range(303)])
    assert many is not None
    assert (len(many.lines), many.left_out) == (200, 103)


@pytest.mark.parametrize("missing", ["drawsvg", "fast_sugiyama"])
def test_a_page_without_a_library_says_so(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        shapes, "find_spec", lambda name: None if name == missing else find_spec(name)
    )
    code = code_of()
    change = CodeChange.of(looping.__code__, gm.rewrite(looping).__code__)
    site = site_at(4, code)
    frame = frame_of(code, operators=(1,), mended=(site,))
    page = page_of(
        Report(
            mends=[Mend("where", site, "A break")], frames=[frame], rewritten=[Rewritten.of(change)]
        )
    )
    (said,) = re.findall(r"<p>Pictures .*: pip install (.*)</p>", page)
    assert missing.replace("_", "-") in said.split()
    assert 'class="flow"' not in page
    assert "break in line 4 of m.py" in page
    assert 'class="listing"' in page


def test_a_page_of_200_sites_stays_small() -> None:
    pytest.importorskip("fast_sugiyama")
    scope: dict[str, object] = {}
    body = "".join(f"    if x > {n}:\n        x = x + {n} * y\n" for n in range(12))
    exec(f"def f(x, y):\n{body}    return x\n", scope)
    function = scope["f"]
    change = CodeChange.of(function.__code__, gm.rewrite(function).__code__)
    report = Report()
    for number in range(200):
        code = code_of(f"f{number}")
        sites = tuple(site_at(line, code) for line in range(2, 4))
        for site in sites:
            report.add(Mend("where", site, "Data-dependent branching"))
        report.add(Decline("arm-mutates-tensor", "It is written.", ("Do not.",), sites[0]))
        one = replace(change, code=identity_of(code))
        report.note_frame(frame_of(code, operators=(9,), mended=sites), [Rewritten.of(one)])
    assert len(report.rewrites) == 200
    page = page_of(report)
    assert page.count('id="code-') == 200
    assert "The code is left out, so that the page stays small." in page
    assert len(page.encode()) < 4_000_000
