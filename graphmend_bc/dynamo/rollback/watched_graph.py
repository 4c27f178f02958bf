"""Watch a graph: use its results only if nothing was wrong, and leave nothing behind otherwise.

Whatever of ours fails here, the graph is taken back and the frame's original code runs.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch.utils.checkpoint import CheckpointError

from graphmend_bc.dynamo.graph.state_snapshot import Before
from graphmend_bc.dynamo.rollback import checkpoints
from graphmend_bc.dynamo.rollback.quiet_errors import rolled_back
from graphmend_bc.dynamo.rollback.raised_errors import telling
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback
from graphmend_bc.dynamo.speculation.check_outputs import CheckOutputs
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.planner import GraphOutcomes
from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.runtime.deferral.effect_preflight import EffectPreflight
from graphmend_bc.runtime.deoptimise import Deoptimise
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")

Failed = Callable[[Exception], None]
"""Is told of an error of ours."""


def rolling_back(
    graph: Callable[..., Any],
    rollback: Rollback,
    tally: Tally,
    extra: int,
    compilation: Compilation,
    ahead: EffectPreflight | None,
    checks: CheckOutputs | None,
) -> Callable[..., Any]:
    """A graph that raises `Deoptimise`, and leaves nothing behind, if it must not be used.

    Args:
        graph: the compiled graph.
        rollback: how to take it back.
        tally: of its calls.
        extra: how many of its outputs, the last ones, are for us.
        compilation: what it is a graph of.
        ahead: told how to take back what has just run.
        checks: which of its outputs say whether a speculation was wrong, if it rests on any.
    """
    outcomes, undo = compilation.outcomes, rollback.undo
    assert undo is not None
    attempt = _attempt(graph, rollback, tally, compilation, ahead, checks)
    account = _accounting(tally, outcomes)
    shares = undo.is_shared

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        begun, is_alone = time.perf_counter_ns(), False
        try:
            if shares:
                with undo.alone(args):
                    is_alone = True
                    results, wrong = attempt(args, kwargs)
            else:
                results, wrong = attempt(args, kwargs)
        except _OperatorFailed as raised:
            # No local may hold the error: its traceback holds them, and the graph's modes.
            text, said = repr(raised.args[0]), str(raised.args[0])
            log.info("A compiled graph raised %s; the original code of its frame runs.", text)
            raise account((), begun, said) from raised.args[0]
        except Exception as error:
            if is_alone or not shares:
                raise
            raise not_run(error, outcomes.failed) from None
        if wrong:
            raise account(wrong, begun, "")
        return results[:-extra] if extra else results

    return run_graph


def not_run(error: Exception, failed: Failed) -> Deoptimise:
    """What is raised in the place of an error of ours, where the graph's results are not used.

    Args:
        error: ours.
        failed: told of it.
    """
    pass_on(error)
    failed(error)
    return Deoptimise()


def _accounting(
    tally: Tally, outcomes: GraphOutcomes
) -> Callable[[Sequence[int], int, str], Deoptimise]:
    """Notes that a graph ran for nothing. No result depends on it: an error of ours is told of.

    Args:
        tally: of the graph.
        outcomes: of its frame.
    """

    def account(wrong: Sequence[int], begun: int, said: str) -> Deoptimise:
        try:
            if "Runtime assertion failed" in said:
                wrong = tally.suspects(said)
            charge = tally.charge(wrong, time.perf_counter_ns() - begun)
            outcomes.graph_failed(tally, wrong)
            # A recomputation runs the original code where the first run has.
            compiles = tally.replaced_at_once and checkpoints.region() is None
            tally.replaced_at_once = False
            if compiles or charge is None:
                return Deoptimise(compiles=compiles)
            return Deoptimise(_contained(charge, outcomes.failed))
        except Exception as error:
            return not_run(error, outcomes.failed)

    return account


def _contained(noting: Callable[..., None], failed: Failed) -> Callable[..., None]:
    """Bookkeeping that no result depends on: an error of ours in it is told of."""

    def note(*given: int) -> None:
        try:
            noting(*given)
        except Exception as error:
            pass_on(error)
            failed(error)

    return note


def _attempt(
    graph: Callable[..., Any],
    rollback: Rollback,
    tally: Tally,
    compilation: Compilation,
    ahead: EffectPreflight | None,
    checks: CheckOutputs | None,
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Sequence[int]]]:
    undo, code, failed = rollback.undo, compilation.code, compilation.outcomes.failed
    assert undo is not None
    take_back, is_operators = _taking_back(failed), telling(failed)
    around = checkpoints.whole_region if rollback.leaves_more else checkpoints.region

    @rolled_back
    def attempt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Sequence[int]]:
        """The results, or which speculations were wrong.

        Raises:
            _OperatorFailed: an operator raised.
            Deoptimise: what the graph changes could not be copied, or it must not run here.
        """
        mark = None
        try:
            if (region := around()) is not None:
                mark = region.begin(code, tally)
            before = undo.remember(args)
            tally.calls += 1
        except CheckpointError:  # torch's word for another recomputation than the forward pass
            raise
        except Exception as error:
            left = not_run(error, failed)
            take_back(None, mark)
            raise left from None
        try:
            results = graph(*args, **kwargs)
        except BaseException as error:
            rolls_back = is_operators(error)
            if (mark is not None and mark.repeats) or not rolls_back:
                before.restore_modes()  # as the program's `with` blocks would
                raise
            take_back(before, mark)
            raise _OperatorFailed(error) from None
        try:
            wrong = () if checks is None else checks.wrong(results)
            if mark is not None and not wrong:
                mark.used()
            if ahead is not None and not wrong:
                ahead.undone.restore = partial(take_back, before, mark, was_used=True)
        except Exception as error:
            left = not_run(error, failed)
            take_back(before, mark)
            raise left from None
        if wrong:
            take_back(before, mark)
        return results, wrong

    return attempt


def _taking_back(failed: Failed) -> Callable[..., None]:
    def take_back(
        before: Before | None, mark: checkpoints.CheckpointMark | None, *, was_used: bool = False
    ) -> None:
        """Undo a graph, which has not run if there is no `before`, and tell a checkpoint."""
        if before is not None:
            before.restore()
        if mark is not None:
            _contained(mark.withdrawn if was_used else mark.thrown_away, failed)()

    return take_back


class _OperatorFailed(BaseException):
    """An operator of a graph raised its argument, and the graph was rolled back."""
