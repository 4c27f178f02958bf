"""Dynamo's own unbacked symbols for sizes and numbers, switched on for one frame.

See `torch._dynamo.config.capture_scalar_outputs` and `capture_dynamic_output_shape_ops`.
"""

from graphmend_bc.dynamo.symbols.captures import captured
from graphmend_bc.rewriting.plan import Capture
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

CAPTURABLE = frozenset(
    {
        "Data dependent operator",
        "Dynamic shape operator",
        "Dynamic slicing with Tensor arguments",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    }
)


def _matches(met: BreakSite) -> Rewrites | None:
    return {met.offset: Capture()} if met.gb_type else None


RULE = Rule("capture", "capture", 50, _matches, CAPTURABLE, handler=captured)
