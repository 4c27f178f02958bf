"""The rules, the table of break types made of them, and rules of the user's."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.catalog.unsupported_breaks import LEFT
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import CALLS
from graphmend_bc.rewriting.operands import is_subscript
from graphmend_bc.rewriting.plan import Rewrite
from graphmend_bc.rules.registry import BUILT_IN, all_rules, candidates_at, register_rule
from graphmend_bc.rules.rule import BreakSite, Rule
from tests.releases import executed

DOCS = Path(__file__).parents[2] / "docs"


def _maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_breaks", DOCS / "make_breaks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_break_type_of_this_torch() -> None:
    maker = _maker()
    text = (DOCS / "breaks.md").read_text(encoding="utf-8")
    for gb_type, gb_id in maker.gb_types(maker.INSTALLED).items():
        row = maker.row(gb_type, gb_id).removeprefix(f"| {gb_id}")  # ids differ between versions
        assert row in text, f"Run docs/make_breaks.py: {gb_type} is missing or differs."


def test_the_page_has_every_rule() -> None:
    text, maker = (DOCS / "breaks.md").read_text(encoding="utf-8"), _maker()
    for rule in BUILT_IN:
        about = maker._about(rule)
        assert f"| `{rule.name}` | `{rule.strategy}` | {rule.cost} | {about} |" in text
    assert len({maker._about(rule) for rule in BUILT_IN}) == len(BUILT_IN)


def test_rules_differ_in_name_and_use_known_strategies() -> None:
    assert len({rule.name for rule in BUILT_IN}) == len(BUILT_IN)
    assert {rule.strategy for rule in BUILT_IN} <= set(gm.config.strategies)
    assert not any(rule.gb_types & LEFT.keys() for rule in BUILT_IN)


def _traced(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    vendor_trace(y)
    return y * 2


SEEN: list[float] = []


@torch._dynamo.disable
def vendor_trace(x: torch.Tensor) -> None:
    SEEN.append(x.sum().item())


def test_a_rule_of_the_users() -> None:
    def matches(break_site: BreakSite) -> dict[int, Rewrite] | None:
        return {break_site.offset: gm.MarkCallee()} if break_site.callee == "vendor_trace" else None

    handle = register_rule(Rule("vendor-trace", "defer", 4, matches, handler="defer"))
    try:
        assert "vendor-trace" in {rule.name for rule in all_rules()}
        with gm.config.patch(effects=[vendor_trace]), gm.enabled():
            torch.compile(_traced, backend="eager", fullgraph=True)(torch.ones(2))
            assert SEEN == [4.0]
    finally:
        handle.remove()
    assert "vendor-trace" not in {rule.name for rule in all_rules()}


def test_bad_rules_are_told() -> None:
    with pytest.raises(TypeError, match="A rule is expected"):
        gm.register_rule("where")
    with pytest.raises(ValueError, match="named 'where' already"):
        gm.register_rule(Rule("where", "where", 1, lambda break_site: None))


@pytest.mark.parametrize(("off", "strategy"), [((), "where"), (("where",), "cond")])
def test_rules_are_switched_off_by_name(off: tuple[str, ...], strategy: str) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        if x.sum() > 0:
            x = x * 2
        return x

    with gm.config.patch(rules_off=off), gm.enabled():
        torch.compile(f, backend="eager")(torch.ones(2))
        assert [mend.strategy for mend in gm.report().mends] == [strategy]


def _site(line: str, gb_type: str) -> BreakSite:
    """The call in a function of one line, as Dynamo would report it."""
    scope: dict[str, object] = {}
    executed(f"def f(x, thing):\n    return {line}", "<program>", scope)
    code = scope["f"].__code__  # type: ignore[attr-defined]
    graph = graph_of(code)
    found = [op for op in graph.listing.ops if op.name in CALLS or is_subscript(op)]
    return BreakSite(code, found[-1].offset, gb_type)


def _refusal(site: BreakSite, lost: dict[str, str] | None = None) -> tuple[str, str]:
    with pytest.raises(Refused) as refused:
        candidates_at(site, lost or {})
    return refused.value.reason.code, refused.value.detail


def test_why_no_rule_is_left() -> None:
    site = _site("sorted(x)", "sort with non-constant keys")
    assert [here.rule.name for here in candidates_at(site)] == ["order"]
    assert _refusal(_site("thing(x)", "no such type"))[0] == "call-not-traced"
    assert _refusal(_site("x[thing]", "no such type"))[0] == "unhandled-instruction"
    for setting, value, said in (
        ("rules_off", ("order",), "The rule 'order' is in graphmend_bc.config.rules_off."),
        (
            "strategies",
            ("where",),
            "The strategy 'speculate' is not in graphmend_bc.config.strategies.",
        ),
        ("sites_off", ("<program>:2",), "Its line is left out by graphmend_bc.config.sites_off."),
        ("sites_only", ("<program>:3",), "Its line is left out by graphmend_bc.config.sites_only."),
    ):
        with gm.config.patch(**{setting: value}):
            assert _refusal(site) == ("strategy-off", said)


def test_what_a_rule_needs_and_this_torch_lacks() -> None:
    """A rule of the user's that does not say what it needs is like ours of its strategy."""
    hoists = _site("x.tolist()", "Tensor.tolist() with non-integer tensor")
    lost = {capabilities.COMPUTED_GUARDS: "computes no guards"}
    assert "hoist" in {here.rule.name for here in candidates_at(hoists)}
    assert _refusal(hoists, lost) == ("torch-differs", "It computes no guards.")
    assert candidates_at(hoists, {"something else": "is gone"}) == candidates_at(hoists)

    def matches(site: BreakSite) -> dict[int, Rewrite] | None:
        return {site.offset: gm.MarkCallee()} if site.callee == "thing" else None

    site = _site("thing(x)", "no such type")
    for needs, strategy, left in (
        (frozenset[str](), "hoist", False),
        (frozenset[str](), "where", True),
        (frozenset({"something else"}), "hoist", True),
    ):
        rule = Rule("mine", strategy, 4, matches, needs=needs)
        handle = register_rule(rule)
        try:
            assert [here.rule for here in candidates_at(site)] == [rule]
            if left:
                assert [here.rule for here in candidates_at(site, lost)] == [rule]
            else:
                assert _refusal(site, lost) == ("torch-differs", "It computes no guards.")
        finally:
            handle.remove()
