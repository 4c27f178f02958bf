"""A loop that is left at the end of a round only becomes `torch.while_loop`."""

from graphmend_bc.rules.rule import DATA_DEPENDENT, Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    return (lambda plan: plan.with_round(met.offset)) if met.ends_round else None


RULE = Rule("round", "while_loop", 16, _matches, DATA_DEPENDENT)
