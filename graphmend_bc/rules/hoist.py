"""What depends on the frame's inputs only is computed before the graph; its result is an input."""

from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import Met, Rule, Widen

_OF_BUILTINS = "Failed to trace builtin operator"


def _matches(met: Met) -> Widen | None:
    if met.gb_type == _OF_BUILTINS and met.callee != "range":
        return None
    known = met.gb_type and (met.is_call or met.op.name == "BINARY_SUBSCR")
    return (lambda plan: plan.with_hoist(met.offset)) if known else None


RULE = Rule(
    "hoist",
    "hoist",
    60,
    _matches,
    CAPTURABLE
    | {
        "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",
        "Dynamic shape operator (no meta kernel)",
        "Tensor.tolist() with non-integer tensor",
        "UserError",
        _OF_BUILTINS,
    },
)
