"""A block that sets cuDNN's flags is traced without them, where no kernel reads them."""

from graphmend_bc.dynamo.substitutes.cudnn_flags import block
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import Met, Rewrites, Rule


def _matches(met: Met) -> Rewrites | None:
    known = met.gb_type and met.callee == "flags" and met.op.name != "CALL_FUNCTION_EX"
    return {met.offset: MarkCallee(in_order=False)} if known else None


RULE = Rule(
    "flags", "flags", 7, _matches, frozenset({"torch.* op returned non-Tensor"}), handler=block
)
