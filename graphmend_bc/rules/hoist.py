"""A call that depends on the frame's inputs only runs before the graph; its result is an input."""

from graphmend_bc.rules.capture import CAPTURABLE
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_hoist(met.offset)) if met.is_call and met.gb_type else None


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
    },
)
