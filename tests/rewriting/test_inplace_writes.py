"""In-place methods of what objects hold, as the bytecode shows them."""

from __future__ import annotations

import pytest

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.rewriting.inplace_writes import attribute_written_inplace


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("self.total.add_(x)", "total"),
        ("self.a.b.clamp_(max=x)", "b"),
        ("self.total.data.add_(x)", "total"),
        ("x.data.add_(1)", ""),
        ("x.add_(1)", ""),
        ("self.total.add(x)", ""),
        ("self.total._bump_()", ""),
        ("self.total.__iadd__(x)", ""),
        ("self.total + x.add_(1)", ""),
    ],
)
def test_the_attribute_is_named(body: str, name: str) -> None:
    scope: dict[str, object] = {}
    exec(f"def f(self, x):\n    {body}\n", scope)
    graph = graph_of(scope["f"].__code__)  # type: ignore[attr-defined]
    assert attribute_written_inplace(graph.listing.ops) == name
