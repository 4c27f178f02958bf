"""What a function gives back, from its bytecode alone."""

from __future__ import annotations

import pytest

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.analysis.producers import returns_none
from tests.code.kit import function


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if x: return\nx.f()", True),
        ("if x: return None\nreturn x", False),
        ("return 1 if x else None", False),
        ("for i in x:\n    if i: return\n    print(i)", True),
        ("try:\n    return x.a\nexcept KeyError: pass", False),
        ("y = None\nreturn y", False),
        ("yield 1", False),
        ("raise ValueError(x)", True),
    ],
)
def test_what_returns_nothing(body: str, expected: bool) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    code = function(f"def f(x):\n{lines}").__code__
    assert returns_none(graph_of(code)) is expected
