"""A while loop becomes `torch.while_loop`."""

from graphmend_bc.rules.rule import DATA_DEPENDENT, Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_loop(met.offset)) if met.guards_loop else None


RULE = Rule("loop", "while_loop", 12, _matches, DATA_DEPENDENT)
