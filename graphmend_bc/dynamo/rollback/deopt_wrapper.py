"""Deoptimisation of a frame: watch its graph, and run its original code if the graph is no good."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
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
from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.rollback import checkpoints
from graphmend_bc.dynamo.rollback.compiled_rerun import or_compiled
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback
from graphmend_bc.dynamo.rollback.watched_graph import Failed, not_run, rolling_back
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.symbols.captures import captured_in
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.rewriting.deopt import with_deopt
from graphmend_bc.runtime.deoptimise import Deoptimise, Deoptimizer
from graphmend_bc.runtime.shown_effects import told_of_rerun
from graphmend_bc.runtime.told_once import told_once

log = logging.getLogger("graphmend_bc")


def add_deopt_wrapper(
    result: Any,
    code: CodeType,
    module_globals: dict[str, Any],
    roll_back: Sequence[Callable[[], None]] = (),
) -> None:
    """Wrap the bytecode of a `compile_frame` result, in place.

    Args:
        result: what Dynamo's `compile_frame` returned.
        code: the frame's own code object.
        module_globals: the frame's globals.
        roll_back: each is called before the original code runs.
    """
    # Switched off for the deoptimizer's own frame too: it would be compiled like any other.
    original = Deoptimizer(as_the_users(code), module_globals, tuple(roll_back))
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
        graph = rolling_back(graph, rollback, tally, extra, compilation, ahead, checks)
    elif extra:
        graph = _without_outputs(graph, extra)
    failed = compilation.outcomes.failed
    if rollback.leaves_more and rollback.undo is None:
        graph = _outside_of_checkpoints(graph, failed)
    for feature in trace.obliged(Feature.guarded):
        graph = feature.guarded(graph)
    return graph if rollback.layout is None else _in_layout(graph, rollback.layout, failed)


def keeping_modes(graph: Callable[..., Any], modes: StateSnapshot) -> Callable[..., Any]:
    """A compiled graph that puts modes back if it raises, as the program's `with` blocks would."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        before = None
        try:
            before = modes.remember(args)
        except Exception as error:
            told_once("does not put modes back where a graph raises", error)
        try:
            return graph(*args, **kwargs)
        except BaseException:
            if before is not None:
                before.restore()
            raise

    return run_graph


def _without_outputs(graph: Callable[..., Any], extra: int) -> Callable[..., Any]:
    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        return graph(*args, **kwargs)[:-extra]

    return run_graph


def _in_layout(graph: Callable[..., Any], layout: Layout, failed: Failed) -> Callable[..., Any]:
    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        try:
            holds = layout.holds(args)
        except Exception as error:
            raise not_run(error, failed) from None
        if not holds:
            log.info(
                "Inputs that a graph changes share memory in another way than when it was compiled;"
                " the original code of its frame runs."
            )
            raise Deoptimise
        return graph(*args, **kwargs)

    return run_graph


def _outside_of_checkpoints(graph: Callable[..., Any], failed: Failed) -> Callable[..., Any]:
    """A recomputation that stops in the graph would lose what is done after it."""

    @functools.wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        try:
            stops_early = checkpoints.stops_early()
        except Exception as error:
            raise not_run(error, failed) from None
        if stops_early:
            raise Deoptimise
        return graph(*args, **kwargs)

    return run_graph
