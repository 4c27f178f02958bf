"""Deoptimisation of a frame: watch its graph, and run its original code if the graph is no good."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType
from typing import Any

import torch._dynamo
from torch._C._dynamo.eval_frame import set_eval_frame

from graphmend_bc import config
from graphmend_bc.dynamo.calls.higher_order import HigherOrder
from graphmend_bc.dynamo.deferral.preflight import Preflight
from graphmend_bc.dynamo.frames.generated_code import as_the_users
from graphmend_bc.dynamo.frames.profiler_labels import deoptimisation
from graphmend_bc.dynamo.graph.input_aliasing import Layout
from graphmend_bc.dynamo.graph.state_snapshot import Before, StateSnapshot
from graphmend_bc.dynamo.rollback import checkpoints
from graphmend_bc.dynamo.rollback.compiled_rerun import or_compiled
from graphmend_bc.dynamo.rollback.quiet_errors import rolled_back
from graphmend_bc.dynamo.rollback.raised_errors import let_go_of_graph, was_raised_by_operator
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback
from graphmend_bc.dynamo.speculation.check_outputs import CheckOutputs
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.symbols.captures import captured_in
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.rewriting.deopt import with_deopt
from graphmend_bc.runtime.deferral.effect_preflight import EffectPreflight
from graphmend_bc.runtime.deoptimise import Deoptimise, Deoptimizer
from graphmend_bc.runtime.shown_effects import told_of_rerun
from graphmend_bc.runtime.signal_handlers import pass_on

log = logging.getLogger("graphmend_bc")


def add_deopt_wrapper(
    result: Any,
    code: CodeType,
    module_globals: dict[str, Any],
    roll_back: Callable[[], None] | None = None,
) -> None:
    """Wrap the bytecode of a `compile_frame` result, in place.

    Args:
        result: what Dynamo's `compile_frame` returned.
        code: the frame's own code object.
        module_globals: the frame's globals.
        roll_back: called before the original code runs.
    """
    # Switched off for the deoptimizer's own frame too: it would be compiled like any other.
    original = Deoptimizer(as_the_users(code), module_globals, roll_back)
    run = told_of_rerun(original.run) if config.verify else original.run
    run = switched_off(deoptimisation(run, code))
    deoptimizer = torch._dynamo.disable(run)  # type: ignore[no-untyped-call]
    if original.code is code and not config.verify:
        deoptimizer = or_compiled(deoptimizer, original)
    result.bytecode = with_deopt(result.bytecode, code, deoptimizer)


def switched_off(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, beneath which nothing that is compiled is used.

    Under the stance `eager_on_recompile`, what is compiled is used beneath Dynamo's own `disable`:
    the original code of a frame would be answered by the graph that it replaces.
    """

    def run_off(*args: Any) -> Any:
        former = set_eval_frame(None)
        try:
            return run(*args)
        finally:
            set_eval_frame(former)

    return run_off


def watched(graph: Callable[..., Any], compilation: Compilation) -> Callable[..., Any]:
    """A compiled graph without the outputs that are for us.

    It raises `Deoptimise`, and leaves nothing behind, if it can be rolled back and a speculation it
    rests on was wrong or one of its operators raised. What else comes out of it passes as it is.
    """
    trace = compilation.trace
    extra = len(trace.our_outputs())
    rollback = trace.of(Rollback)
    if rollback.undo is not None:
        speculations = tuple(speculation for speculation, _ in trace.speculations)
        captured, one_graph = tuple(captured_in(trace)), compilation.one_graph
        operators = trace.known(HigherOrder) or HigherOrder()
        functional = tuple(dict.fromkeys(operators.functional.values()))
        rollback.tally = tally = Tally(speculations, captured, functional, one_graph=one_graph)
        preflight = trace.known(Preflight)
        ahead = None if preflight is None else preflight.looks
        checks = trace.of(Checks).outputs if speculations else None
        graph = _rolling_back(graph, rollback, tally, extra, compilation, ahead, checks)
    elif extra:
        graph = _without_outputs(graph, extra)
    if rollback.leaves_more and rollback.undo is None:
        graph = _outside_of_checkpoints(graph)
    for feature in trace.obliged(Feature.guarded):
        graph = feature.guarded(graph)
    return graph if rollback.layout is None else _in_layout(graph, rollback.layout)


def keeping_modes(graph: Callable[..., Any], modes: StateSnapshot) -> Callable[..., Any]:
    """A compiled graph that puts modes back if it raises, as the program's `with` blocks would."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        before = modes.remember(args)
        try:
            return graph(*args, **kwargs)
        except BaseException:
            before.restore()
            raise

    return run_graph


def _without_outputs(graph: Callable[..., Any], extra: int) -> Callable[..., Any]:
    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        return graph(*args, **kwargs)[:-extra]

    return run_graph


def _in_layout(graph: Callable[..., Any], layout: Layout) -> Callable[..., Any]:
    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        if not layout.holds(args):
            log.info(
                "Inputs that a graph changes share memory in another way than when it was compiled;"
                " the original code of its frame runs."
            )
            raise Deoptimise
        return graph(*args, **kwargs)

    return run_graph


def _outside_of_checkpoints(graph: Callable[..., Any]) -> Callable[..., Any]:
    """A recomputation that stops in the graph would lose what is done after it."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        if checkpoints.stops_early():
            raise Deoptimise
        return graph(*args, **kwargs)

    return run_graph


def _rolling_back(
    graph: Callable[..., Any],
    rollback: Rollback,
    tally: Tally,
    extra: int,
    compilation: Compilation,
    ahead: EffectPreflight | None,
    checks: CheckOutputs | None,
) -> Callable[..., Any]:
    undo, graph_failed = rollback.undo, compilation.outcomes.graph_failed
    assert undo is not None
    attempt = _attempt(graph, rollback, tally, compilation, ahead, checks)
    shares = bool(undo.inputs or undo.draws)

    def deoptimise(wrong: Sequence[int], begun: int) -> Deoptimise:
        charge = tally.charge(wrong, time.perf_counter_ns() - begun)
        graph_failed(tally, wrong)
        # A recomputation runs the original code where the first run has.
        compiles = tally.replaced_at_once and checkpoints.region() is None
        tally.replaced_at_once = False
        return Deoptimise(None if compiles else charge, compiles=compiles)

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        begun = time.perf_counter_ns()
        try:
            if shares:
                with undo.alone(args):
                    results, wrong = attempt(args, kwargs)
            else:
                results, wrong = attempt(args, kwargs)
        except _OperatorFailed as failed:
            # No local may hold the error: its traceback holds them, and the graph's modes.
            text, said = repr(failed.error), str(failed.error)
            log.info("A compiled graph raised %s; the original code of its frame runs.", text)
            asserts = "Runtime assertion failed" in said
            wrong = tally.suspects(said) if asserts else ()
            raise deoptimise(wrong, begun) from failed.error
        if wrong:
            raise deoptimise(wrong, begun)
        return results[:-extra] if extra else results

    return run_graph


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
    around = checkpoints.whole_region if rollback.leaves_more else checkpoints.region

    @rolled_back
    def attempt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Sequence[int]]:
        """The results, or which speculations were wrong.

        Raises:
            _OperatorFailed: an operator raised.
            Deoptimise: what the graph changes could not be copied, or it must not run here.
        """
        region = around()
        mark = None if region is None else region.begin(code, tally)
        try:
            before = undo.remember(args)
        except Exception as error:
            pass_on(error)
            failed(error)
            if mark is not None:
                mark.thrown_away()
            raise Deoptimise from None
        tally.calls += 1
        try:
            results = graph(*args, **kwargs)
        except BaseException as error:
            let_go_of_graph(error)
            if (mark is not None and mark.repeats) or not was_raised_by_operator(error):
                before.restore_modes()  # as the program's `with` blocks would
                raise
            _throw_away(before, mark)
            raise _OperatorFailed(error) from None
        if checks is not None and (wrong := checks.wrong(results)):
            _throw_away(before, mark)
            return None, wrong
        if mark is not None:
            mark.used()
        if ahead is not None:
            ahead.undone.restore = partial(_withdraw, before, mark)
        return results, ()

    return attempt


def _throw_away(before: Before, mark: checkpoints.CheckpointMark | None) -> None:
    """Undo a graph whose results are not used."""
    before.restore()
    if mark is not None:
        mark.thrown_away()


def _withdraw(before: Before, mark: checkpoints.CheckpointMark | None) -> None:
    """Undo a graph whose results were about to be used."""
    before.restore()
    if mark is not None:
        mark.withdrawn()


class _OperatorFailed(BaseException):
    """An operator of a graph raised, and the graph was rolled back.

    Args:
        error: what it raised.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error
