"""A rule was refused at a branch: the trace goes on there with the next one."""

from __future__ import annotations

from functools import partial

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.calls.higher_order import depth_of
from graphmend_bc.dynamo.frames.on_stack_replacement import GoesOnOtherwise
from graphmend_bc.dynamo.speculation.survey import Survey
from graphmend_bc.dynamo.trace.checkpoint import Checkpoint
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


def go_on_with_next_rule(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    condition: VariableTracker,
    refused: Refused,
    checkpoint: Checkpoint | None,
) -> None:
    """Let the trace go on with the next rule; returns if it cannot.

    Args:
        tx: translator of the frame that has the branch.
        compilation: what is being compiled.
        site: the branch.
        condition: what it asks.
        refused: why the rule does not work.
        checkpoint: taken before an arm was traced; None if none was.

    Raises:
        GoesOnOtherwise: it goes on.
    """
    if not compilation.goes_on or not _may_go_on(tx, compilation, refused, checkpoint):
        return
    find = partial(compilation.planner.form_after, tx.f_code, site, refused)
    code = compilation.replacements.answer((tx.f_code, site), find)
    if code is None:
        return
    if checkpoint is not None:
        checkpoint.restore()
    raise GoesOnOtherwise(code, condition)


def _may_go_on(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    refused: Refused,
    checkpoint: Checkpoint | None,
) -> bool:
    """Whether the trace is as it was before the branch, but for operators that are taken back."""
    trace = compilation.trace
    if trace.known(Survey) is not None or depth_of(trace):
        return False
    if refused.reason.code == "arm-raises":  # Dynamo keeps the exception as the one in flight
        return False
    outer = trace.arms if checkpoint is None else checkpoint.notes["arms"]
    if outer or tx.output.current_tracer.parent is not None:
        return False
    return checkpoint is None or checkpoint.is_restorable()
