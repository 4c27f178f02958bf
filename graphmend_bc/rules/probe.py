"""A question about the process is answered while tracing, and asked again by a guard."""

from graphmend_bc.probes import NAMES
from graphmend_bc.rules.rule import Met, Rule, Widen


def _matches(met: Met) -> Widen | None:
    # Dynamo calls a function that caches its results by way of `getattr_and_trace`.
    names = NAMES if met.code.co_name != "getattr_and_trace" else {"fn"}
    known = met.gb_type and met.callee in names
    return (lambda plan: plan.with_known(met.offset)) if known else None


RULE = Rule(
    "probe",
    "probe",
    6,
    _matches,
    frozenset({"Attempted to call function marked as skipped", "torch.* op returned non-Tensor"}),
)
