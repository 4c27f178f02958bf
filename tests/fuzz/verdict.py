"""Is a generated program exact under mending, and if not, whose fault is it?"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult
from graphmend_bc.testing.observation import Observed
from tests.excess import Frames, excess_over, may_exceed_stock
from tests.fuzz.arms import compiled, difference_of, run, shown, where
from tests.fuzz.backends import is_backends
from tests.fuzz.programs import Program
from tests.fuzz.ways import Unsaved


class Fault(Enum):
    """What a program under mending came to."""

    NONE = "exact"
    STOCK = "stock torch.compile is wrong there too"
    BACKEND = "the backend is wrong with any graph of this kind"
    REWRITING = "rewritten code run by Python is wrong"
    MENDING = "compiled code is wrong"
    PIECES = "the first call is in more pieces than under stock"


OURS = frozenset({Fault.REWRITING, Fault.MENDING, Fault.PIECES})


@dataclass(frozen=True)
class Verdict:
    """One program's verdict.

    Attributes:
        fault: whose fault a difference is.
        difference: the first difference from eager Python, in words.
        strategies: how branches and effects of the program were mended.
        declines: reason codes of those that were not.
        kinds: of the program, as `tests.fuzz.kinds` names them.
    """

    fault: Fault
    difference: str = ""
    strategies: frozenset[str] = frozenset()
    declines: frozenset[str] = frozenset()
    kinds: frozenset[str] = frozenset()


def judge(program: Program) -> Verdict:
    """Run a program by eager Python, rewritten, mended and, if need be, by stock `torch.compile`.

    Raises:
        Exception: what torch or this library raised where the program could not catch it.
    """
    try:
        expected = run(program, lambda f: f)
    except RuntimeError:  # autograd lets nobody look at some views that were written to
        return Verdict(Fault.NONE, "", declines=frozenset({"not shown"}))
    difference = difference_of(expected, run(program, _rewritten))
    if difference and not program.ends_objects:
        return Verdict(Fault.REWRITING, difference)
    state, frames = session.new_state(mends=True), list[list[FrameResult]]()
    try:
        mended = compiled(program, state, frames=frames)
    except Unsaved:
        return Verdict(Fault.NONE, "", declines=frozenset({"not saved"}))
    except RuntimeError as error:
        if _fails_under_stock(program, error):
            return Verdict(Fault.STOCK, str(error))
        raise
    strategies = frozenset(mend.strategy for mend in state.report.mends)
    declines = frozenset(decline.reason for decline in state.report.declines)
    if difference := difference_of(expected, mended):
        stock = _stock(program, expected)
        is_stocks = _is_stocks(program, expected, mended, stock) or _is_left_to_stock(
            program, expected, mended
        )
        fault = Fault.STOCK if is_stocks else Fault.MENDING
        if fault is Fault.MENDING and is_backends(program, expected, mended):
            fault = Fault.BACKEND
        return Verdict(fault, difference, strategies, declines)
    if difference := _excess(program, frames[:1]):
        return Verdict(Fault.PIECES, difference, strategies, declines)
    return Verdict(Fault.NONE, "", strategies, declines)


def _stock(program: Program, expected: list[Observed]) -> list[Observed]:
    """What stock makes of a program; what it refuses to save it gets right."""
    try:
        return compiled(program, session.new_state(mends=False))
    except Unsaved:
        return expected


def _fails_under_stock(program: Program, error: RuntimeError) -> bool:
    """True if stock, too, leaves torch in a state in which a result cannot be shown."""
    try:
        compiled(program, session.new_state(mends=False))
    except RuntimeError as other:
        return str(other) == str(error)
    return False


def _excess(program: Program, mended: Frames) -> str:
    """In what the first call is in more pieces than under stock, in words.

    Later calls need not be like those of stock, which does not notice all that changes between them.
    """
    if program.way != "in turn" or not may_exceed_stock(mended):
        return ""
    state, stock = session.new_state(mends=False), list[list[FrameResult]]()
    first = replace(program, calls=program.calls[:1])
    try:
        seen, expected = compiled(first, state, frames=stock), run(first, lambda f: f)
    except RuntimeError:
        # Inductor of 2.14 may leave a state in the thread in which torch cannot show a tensor.
        return ""
    # What stock gets wrong may cost a break to be right; what raises may end in another piece.
    is_wrong = where(expected, seen) is not None
    return "" if is_wrong or expected[0].exception else excess_over(stock, mended, fullgraph=False)


def _rewritten(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with rewritten bytecode, or the module that it is: those are not rewritten."""
    return f if isinstance(f, torch.nn.Module) else gm.rewrite(f)


def _is_stocks(
    program: Program, expected: list[Observed], mended: list[Observed], stock: list[Observed]
) -> bool:
    """True if stock goes wrong at the same place, or there in the same way but before it as well.

    Where surroundings change, the same way is asked for in any case: a break may hide from stock what else it
    does not notice, so that it goes wrong at the same place in less.
    """
    place = where(expected, mended)
    if place is None or (place == where(expected, stock) and not program.changes):
        return True
    number, name = place
    if shown(mended[number], name) == shown(stock[number], name):
        return True
    fields = (getattr(arm[number], name) for arm in (expected, mended, stock))
    return program.changes and place == where(expected, stock) and _errs_as(*fields)


def _errs_as(want: Any, got: Any, other: Any) -> bool:
    """True if every part of `got` that is wrong is wrong in the same way in `other`."""
    if got in (want, other):
        return True
    parts = [part.splitlines() if isinstance(part, str) else part for part in (want, got, other)]
    if len({type(part) for part in parts}) > 1 or not isinstance(parts[0], (list, tuple)):
        return False
    if len({len(part) for part in parts}) > 1 or parts == [[want], [got], [other]]:
        return False
    return all(_errs_as(*items) for items in zip(*parts, strict=True))


def _errs_in_an_order(program: Program, number: int, said: str, name: str) -> bool:
    """True if stock says the same of a call where one thread makes the calls in some order.

    Threads meet torch's caches in another order in each run, so that stock's own runs differ.

    Args:
        program: its calls were made by threads.
        number: of the call among all that the threads made.
        said: what was observed of it.
        name: of the field of it that is told.
    """
    count = len(program.calls)
    call = (number // count + number % count) % count
    for order in itertools.permutations(range(count)):
        calls = tuple(program.calls[one] for one in order)
        seen = _stock(replace(program, way="in turn", calls=calls), [])
        # One thread also observes what an exception leaves behind, after the exception itself.
        text = shown(seen[order.index(call)], name)
        if text == said or text.startswith(f"({said}, "):
            return True
    return False


def _is_left_to_stock(program: Program, expected: list[Observed], mended: list[Observed]) -> bool:
    """True if stock goes wrong in the same way in the call in which mending does.

    State adds up: where an earlier call is exact with mending only, stock is in another state.
    """
    place = where(expected, mended)
    assert place is not None
    number, name = place
    if program.way == "threads":
        return _errs_in_an_order(program, number, shown(mended[number], name), name)
    if program.way != "in turn":
        return False
    states = session.new_state(mends=True), session.new_state(mends=False)
    calls = itertools.count()

    def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
        compiled = torch.compile(f, backend=program.backend)

        def call(*args: Any) -> Any:
            now = next(calls)
            if now == number:
                torch._dynamo.reset()
            with session.mending_by(states[now >= number]):
                return compiled(*args)

        return call

    torch._dynamo.reset()
    return shown(mended[number], name) == shown(run(program, wrap)[number], name)
