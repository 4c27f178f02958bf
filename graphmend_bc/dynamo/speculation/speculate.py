"""Take a truth value for granted, and have the graph say whether that was wrong (checks.py)."""

from __future__ import annotations

import operator
from typing import Any, cast

import sympy  # type: ignore[import-untyped]
import torch
from torch import SymBool
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.utils import is_numpy_ndarray
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch.fx.experimental.symbolic_shapes import canonicalize_bool_expr, expect_true

from graphmend_bc.code.resume_names import is_resumed
from graphmend_bc.dynamo.before_graph.concrete_eval import evaluate_concretely
from graphmend_bc.dynamo.before_graph.subgraphs import CheckpointedSites
from graphmend_bc.dynamo.frames.attempt import allows_versions
from graphmend_bc.dynamo.frames.inlined_frames import frames_of
from graphmend_bc.dynamo.graph.emit import as_tensor, call, compared
from graphmend_bc.dynamo.random_draws.drawn_values import HostDraws
from graphmend_bc.dynamo.random_draws.odds import chance_of
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.speculation.growth import check_growth
from graphmend_bc.dynamo.speculation.guarded_truth import (
    MOST_GUARDED,
    can_be_guarded,
    guarded_truth,
)
from graphmend_bc.dynamo.speculation.loop_rounds import goes_on
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace
from graphmend_bc.dynamo.trace.tracing import functions_around
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import Speculation
from graphmend_bc.runtime import Site, Speculate


def speculate(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    primitive: Speculate,
    truth: TensorVariable,
    *,
    asserted: SymBool | None = None,
) -> bool:
    """The value that a condition is taken to have.

    Args:
        tx: translator of the frame that asks.
        compilation: what is being compiled.
        primitive: where it asks, and what the bytecode suggests.
        truth: the condition, a 0-dim bool tensor.
        asserted: the condition itself, if the graph will raise where the value is wrong.

    Raises:
        Refused: there would be no place for the check, or no end to the speculations.
    """
    if tx.export:
        raise Refused("under-export")
    check_numbers(tx.output.root_tx)
    trace, site = compilation.trace, primitive.site
    is_inner = bool(functions_around(tx))
    if is_inner and (primitive.unbounded or asserted is not None or trace.predicates):
        raise Refused("inside-function")
    if primitive.unbounded:
        return goes_on(tx, compilation, site, truth)
    occurrence = sum(known.site == site for known, _ in trace.speculations)
    check_growth(tx, trace, site, occurrence)
    if site in compilation.guarded:
        try:
            return guarded_truth(tx, compilation, site, truth)
        except Refused as refused:
            # It works as it is, if not in every call.
            if not compilation.one_graph and compilation.planner.fails_again(site):
                detail = f"It is not computed before the graph either: {refused.detail or refused}"
                raise Refused("speculation-missed", detail) from refused

    # Where the other way only raises, it is assumed not to be taken, however likely it is.
    odds = None if primitive.firm else chance_of(tx, trace, truth)
    drawn = None
    if odds is not None and trace.of(Checks).misses_too_often(odds):
        drawn = _drawn_truth(tx, compilation, site, truth, odds)
    if drawn is not None:
        return drawn
    if odds is None or compilation.one_graph:
        odds, value = None, _likely(tx, compilation, primitive, occurrence, truth)
    else:
        value = odds >= 0.5
        trace.of(Checks).missed = trace.of(Checks).missed_with(odds)
    wrong = _wrong(tx, trace, truth, value)
    if is_inner:
        trace.of(Checks).inner.append(wrong)
        trace.of(CheckpointedSites).note(tx, site)
    assert trace.recorder is not None
    trace.recorder.speculated = True
    text = "" if asserted is None else _text(asserted, value)
    known = Speculation(
        site,
        occurrence,
        value,
        primitive.firm,
        text,
        by_chance=odds is not None,
        guardable=_is_guardable(tx, compilation, primitive, truth),
    )
    trace.of(Checks).places.append(frames_of(tx))
    trace.speculations.append((known, wrong))
    trace.used[site] = "speculate"
    return value


def _wrong(
    tx: InstructionTranslatorBase, trace: Trace, truth: TensorVariable, value: bool
) -> TensorVariable:
    """Whether a condition has another value than is assumed, and the arms around it were taken."""
    wrong = call(tx, "logical_not", truth) if value else truth
    if not trace.predicates and not functions_around(tx):
        trace.of(Checks).conditions[wrong.as_proxy().node] = truth, value
    for predicate, taken in trace.predicates:
        around = predicate if taken else call(tx, "logical_not", predicate)
        wrong = call(tx, "logical_and", wrong, around)
    return wrong


def _is_guardable(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    primitive: Speculate,
    truth: TensorVariable,
) -> bool:
    """Whether the condition could be guarded at once if it flips; not asked of more than can be."""
    trace, was_refused = compilation.trace, primitive.site in compilation.guarded
    if primitive.firm or was_refused or len(trace.speculations) >= MOST_GUARDED:
        return False
    if trace.known(HostDraws) is not None:  # asking for their values would draw
        return False
    return can_be_guarded(tx, compilation, primitive.site, truth)


def _likely(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    primitive: Speculate,
    occurrence: int,
    truth: TensorVariable,
) -> bool:
    """The value to assume of a condition, from what is known of this call and of others."""

    def seen() -> bool | None:
        if primitive.firm:
            return primitive.likely
        return evaluate_concretely(tx, compilation.trace, truth)

    return compilation.planner.likely(primitive, occurrence, seen)


def _drawn_truth(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    site: Site,
    truth: TensorVariable,
    odds: float,
) -> bool | None:
    """The value in this call of a condition that goes both ways, guarded by drawing ahead.

    Returns:
        None if it cannot be drawn ahead, and a break would be an error.

    Raises:
        Refused: it cannot be drawn ahead.
    """
    try:
        if not allows_versions(2**MOST_GUARDED):
            raise Refused("hoist-varies", "The frame may not be compiled in more versions.")
        return guarded_truth(tx, compilation, site, truth)
    except Refused as refused:
        if compilation.one_graph:
            return None
        missed = compilation.trace.of(Checks).missed_with(odds)
        detail = f"A random number decides: checks would fail in {missed:.0%} of the calls."
        raise Refused("decided-by-chance", detail) from refused


def check_numbers(frame: InstructionTranslatorBase) -> None:
    """Show that eager Python would compute with the numbers it has if it ran the frame.

    Dynamo hands a NumPy number over a graph break as an array, which torch promotes otherwise.

    Args:
        frame: the frame that is compiled.

    Raises:
        Refused: one of its variables is such an array.
    """
    if not is_resumed(frame.f_code.co_name):
        return
    for name, value in frame.f_locals.items():
        if is_numpy_ndarray(value) and value.ndim == 0:
            raise Refused("array-after-break", f"It is '{name}'.")


def assume(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    primitive: Speculate,
    condition: SymNodeVariable,
) -> bool:
    """The truth value that a condition on numbers known only at run time is taken to have.

    Dynamo learns it too, where the condition is about sizes and other ints, so that what follows
    from it need not be assumed again.

    Args:
        tx, compilation, primitive: as for `speculate`.
        condition: a comparison, or a number that is asked whether it is zero.

    Raises:
        Refused: there would be no place for the check, or no end to the speculations.
    """
    if condition.python_type() is not bool:
        condition = compared(tx, operator.ne, condition, 0)
    symbol: Any = condition.sym_num
    told = not compilation.trace.predicates and all(
        s.is_integer for s in symbol.node.expr.free_symbols
    )
    truth = as_tensor(tx, condition.as_proxy(), torch.bool)
    value = speculate(tx, compilation, primitive, truth, asserted=symbol if told else None)
    if told:
        expect_true(_holding(symbol, value))
    return value


def _holding(condition: SymBool, value: bool) -> SymBool:
    """What is true if a condition has a value, of a size that is not 0 that it is at least 1.

    torch learns more from that: ranges know no holes.
    """
    holding = condition if value else cast(SymBool, torch.sym_not(condition))  # type: ignore[no-untyped-call]
    known: Any = holding.node.expr
    if not isinstance(known, sympy.Ne):
        return holding
    sizes, difference = holding.node.shape_env, known.lhs - known.rhs
    if sizes.bound_sympy(difference).lower != 0:
        return holding
    return cast(SymBool, sizes.create_symboolnode(sympy.Ge(difference, 1)))


def _text(condition: SymBool, value: bool) -> str:
    """How the error of an assertion tells what it asserts; torch tells bounds its own way."""
    known: Any = canonicalize_bool_expr(_holding(condition, value).node.expr)
    if isinstance(known, (sympy.Lt, sympy.Le)):
        strict = int(isinstance(known, sympy.Lt))
        if known.lhs.is_Integer and known.rhs.is_Symbol:
            return f"{known.rhs} >= {known.lhs + strict}"
        if known.rhs.is_Integer and known.lhs.is_Symbol:
            return f"{known.lhs} <= {known.rhs - strict}"
    return str(known)
