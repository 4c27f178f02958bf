"""The likely way is compiled alone and checked after the graph."""

from graphmend_bc.rules.rule import DATA_DEPENDENT, Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    asks = met.op.name == "UNARY_NOT" or (met.is_condition and not met.guards_loop)
    return (lambda plan: plan.with_guesses([met.offset])) if asks else None


RULE = Rule("guess", "speculate", 30, _matches, DATA_DEPENDENT)
