"""Which way a branch is expected to go, by its bytecode."""

from __future__ import annotations

import textwrap
from types import CodeType

import pytest

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.rewriting.conditions.branch_prediction import BranchExpectation, expectation
from graphmend_bc.rewriting.conditions.decision import is_condition

TRUE, FALSE = BranchExpectation(True), BranchExpectation(False)


def expected(body: str, which: int = 0) -> BranchExpectation:
    """Of one of the conditions of a function."""
    source = f"def f(x, layers, log):\n{textwrap.indent(textwrap.dedent(body), '    ')}\n"
    scope: dict[str, object] = {}
    exec(source, scope)
    code = scope["f"].__code__  # type: ignore[attr-defined]
    assert isinstance(code, CodeType)
    graph = graph_of(code)
    found = [block for block in graph.blocks if is_condition(graph.last(block))]
    return expectation(graph, found[which])


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("if x > 0:\n    raise ValueError\nreturn x", BranchExpectation(False, firm=True)),
        ("assert x > 0\nreturn x", BranchExpectation(True, firm=True)),
        (
            "if x > 0:\n    y = 1\nelse:\n    raise ValueError\nreturn y",
            BranchExpectation(True, True),
        ),
        ("if x > 0:\n    print(x)\nreturn x", FALSE),
        ("if x > 0:\n    log.warning(x)\nreturn x", FALSE),
        ("if x > 0:\n    y = print(x)\nelse:\n    y = 1\nreturn y", TRUE),
        ("for layer in layers:\n    x = layer(x)\n    if x > 0:\n        break\nreturn x", FALSE),
        ("for a in layers:\n    x = a(x)\n    if x > 0:\n        return x\nraise ValueError", TRUE),
        ("for a in layers:\n    x = a(x)\n    if x > 0:\n        return x\nreturn 1", FALSE),
        (
            "for a in layers:\n    if x > 0:\n        break\nelse:\n    raise ValueError\nreturn x",
            TRUE,
        ),
        ("if x > 0:\n    return x\nx = x + 1\nfor a in layers:\n    x = a(x)\nreturn x", FALSE),
        ("if x.isnan().any():\n    x = x + 1\nreturn x", FALSE),
        ("if x.isfinite().all():\n    x = x + 1\nreturn x", TRUE),
        ("if x == 3:\n    x = x + 1\nreturn x", FALSE),
        ("if x != 3:\n    x = x + 1\nreturn x", TRUE),
        ("if x:\n    x = x + 1\nreturn x", TRUE),
    ],
)
def test_what_is_rare(body: str, wanted: BranchExpectation) -> None:
    assert expected(body) == wanted


def test_a_loop_that_nothing_else_ends() -> None:
    found = expected("while x > 0:\n    x = x - 1\nreturn x", -1)
    assert found.unbounded
    assert not found.firm
