"""A block with cuDNN's flags set is traced as if they were not, where no kernel looks at them."""

from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    known = met.gb_type and met.callee == "flags" and met.op.name != "CALL_FUNCTION_EX"
    return (lambda plan: plan.with_known(met.offset)) if known else None


RULE = Rule("flags", "flags", 7, _matches, frozenset({"torch.* op returned non-Tensor"}))
