"""Numbers and truth values that are read from tensors, and sizes that depend on them."""

from __future__ import annotations

from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.predication.tensor_predicates import predicate_of_read
from graphmend_bc.dynamo.symbols.captures import captured
from graphmend_bc.rewriting.plan import Capture, MarkCallee
from graphmend_bc.rules.rule import DATA_DEPENDENT, BreakSite, Rewrites, Rule

_ASKING = frozenset(
    {"item", "bool", "equal", "allclose", "is_nonzero", "__bool__", "_check_tensor_all"}
)


def _matches_ask(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(with_use=True)} if site.callee in _ASKING else None


ASK = Rule(
    "ask",
    "capture",
    40,
    _matches_ask,
    DATA_DEPENDENT,
    handler=predicate_of_read,
    needs=frozenset({capabilities.HOST_READS}),
)
"""A truth value or number read from a tensor becomes a predicate of the graph."""


CAPTURABLE = frozenset(
    {
        "Data dependent operator",
        "Dynamic shape operator",
        "Dynamic slicing with Tensor arguments",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    }
)


def _matches_capture(site: BreakSite) -> Rewrites | None:
    return {site.offset: Capture()} if site.gb_type else None


CAPTURE = Rule(
    "capture",
    "capture",
    50,
    _matches_capture,
    CAPTURABLE,
    handler=captured,
    needs=frozenset({capabilities.SYMBOLS}),
)
"""Dynamo's own unbacked symbols for sizes and numbers, switched on for one frame.

See `torch._dynamo.config.capture_scalar_outputs` and `capture_dynamic_output_shape_ops`.
"""

RULES = (ASK, CAPTURE)
