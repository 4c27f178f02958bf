"""A while loop becomes `torch.while_loop`, its first round taken for granted."""

from graphmend_bc.rules.rule import DATA_DEPENDENT, Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_entered_loop(met.offset)) if met.guards_loop else None


RULE = Rule("entered", "while_loop", 14, _matches, DATA_DEPENDENT)
