"""Is a generated program exact under mending, and if not, whose fault is it?"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import guards

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.code.resume_names import without_resumption
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.report import FrameResult
from graphmend_bc.testing.observation import FIELDS, Observed
from tests import oracle
from tests.excess import Frames, excess_over, may_exceed_stock
from tests.fuzz.programs import Program


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
    """

    fault: Fault
    difference: str = ""
    strategies: frozenset[str] = frozenset()
    declines: frozenset[str] = frozenset()


def judge(program: Program) -> Verdict:
    """Run a program by eager Python, rewritten, mended and, if need be, by stock `torch.compile`.

    Raises:
        Exception: what torch or this library raised where the program could not catch it.
    """
    expected = _run(program, lambda f: f)
    difference = _difference(expected, _run(program, _rewritten))
    if difference and not program.ends_objects:
        return Verdict(Fault.REWRITING, difference)
    state, frames = session.new_state(mends=True), list[list[FrameResult]]()
    mended = _compiled(program, state, frames=frames)
    strategies = frozenset(mend.strategy for mend in state.report.mends)
    declines = frozenset(decline.reason for decline in state.report.declines)
    if difference := _difference(expected, mended):
        stock = _compiled(program, session.new_state(mends=False))
        is_stocks = _is_stocks(program, expected, mended, stock) or _is_left_to_stock(
            program, expected, mended
        )
        fault = Fault.STOCK if is_stocks else Fault.MENDING
        if fault is Fault.MENDING and _is_backends(program, expected, mended):
            fault = Fault.BACKEND
        return Verdict(fault, difference, strategies, declines)
    if difference := _excess(program, frames[:1]):
        return Verdict(Fault.PIECES, difference, strategies, declines)
    return Verdict(Fault.NONE, "", strategies, declines)


def _excess(program: Program, mended: Frames) -> str:
    """In what the first call is in more pieces than under stock, in words.

    Later calls need not be like those of stock, which does not notice all that changes between them.
    """
    if not may_exceed_stock(mended):
        return ""
    state, stock = session.new_state(mends=False), list[list[FrameResult]]()
    first = replace(program, calls=program.calls[:1])
    seen, expected = _compiled(first, state, frames=stock), _run(first, lambda f: f)
    # What stock gets wrong may cost a break to be right; what raises may end in another piece.
    is_wrong = _where(expected, seen) is not None
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
    place = _where(expected, mended)
    if place is None or (place == _where(expected, stock) and not program.changes):
        return True
    number, name = place
    if _shown(mended[number], name) == _shown(stock[number], name):
        return True
    fields = (getattr(arm[number], name) for arm in (expected, mended, stock))
    return program.changes and place == _where(expected, stock) and _errs_as(*fields)


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


def _is_left_to_stock(program: Program, expected: list[Observed], mended: list[Observed]) -> bool:
    """True if stock goes wrong in the same way in the call in which mending does.

    State adds up: where an earlier call is exact with mending only, stock is in another state.
    """
    place = _where(expected, mended)
    assert place is not None
    number, name = place
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
    return _shown(mended[number], name) == _shown(_run(program, wrap)[number], name)


def _is_backends(program: Program, expected: list[Observed], mended: list[Observed]) -> bool:
    """True for what AOTAutograd does with every graph, while the same graph run as it is is exact.

    It drops operators whose result nothing uses, those that draw or raise included, and gives zeros
    to what only reaches outputs without a gradient, where eager Python leaves None. A graph is one
    node to autograd: a backward pass from any of its results goes through all of it. Stock graphs
    are the same, only smaller.
    """
    if program.backend == "eager":
        return False
    ways = (_differs_in_zeros, _goes_back_twice)
    if not any(way(expected, mended) for way in ways) and not _drops_operators(program):
        return False
    plain = _compiled(replace(program, backend="eager"), session.new_state(mends=True))
    return _where(expected, plain) is None


def _differs_in_zeros(expected: list[Observed], mended: list[Observed]) -> bool:
    """True if all that differs is gradients that are zeros or missing, or random numbers."""
    for want, got in zip(expected, mended, strict=True):
        if _shown(want, "random_numbers") != _shown(got, "random_numbers"):
            return True  # what follows a draw that was dropped draws other numbers
        for name in FIELDS:
            if name == "gradients":
                if _ZEROS.sub("None", _shown(want, name)) != _ZEROS.sub("None", _shown(got, name)):
                    return False
            elif _shown(want, name) != _shown(got, name):
                return False
    return True


def _goes_back_twice(expected: list[Observed], mended: list[Observed]) -> bool:
    """True if they differ in a call whose backward pass goes through a graph of an earlier call."""
    place = _where(expected, mended)
    return place is not None and _BACK_TWICE in _shown(mended[place[0]], "exception")


_BACK_TWICE = "Trying to backward through the graph a second time"


def _drops_operators(program: Program) -> bool:
    """True if a graph that is run as it is raises, or draws, where the compiled one does not."""
    dropped = []

    def backend(graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        compiled = torch._dynamo.lookup_backend(program.backend)(graph, examples)

        def run(*inputs: Any) -> Any:
            raises, generator = _as_it_is(graph, inputs)
            outputs = compiled(*inputs)
            dropped.append(raises or not torch.equal(generator, torch.get_rng_state()))
            return outputs

        return run

    _compiled(program, session.new_state(mends=True), backend)
    return any(dropped)


def _as_it_is(graph: torch.fx.GraphModule, inputs: tuple[Any, ...]) -> tuple[bool, torch.Tensor]:
    """Whether a graph raises, and the generator's state after it."""
    copies = [
        value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    ]
    with torch.random.fork_rng():
        try:
            graph(*copies)
        except Exception:
            return True, torch.get_rng_state()
        return False, torch.get_rng_state()


_ZEROS = re.compile(r"\('NoneType', 'None'\)|\('torch\.\w+', [^']*'[\[\]\-0., ]*', \w+, '\w+'\)")
"""A gradient as the oracle shows it, if it is missing or zero."""


def _compiled(
    program: Program,
    state: MendingState,
    backend: Callable[..., Any] | None = None,
    frames: list[list[FrameResult]] | None = None,
) -> list[Observed]:
    """All calls, compiled; `frames` gets a list of what is compiled in each call."""
    noted = [] if frames is None else frames
    state.on_frame.append(lambda frame: noted[-1].append(frame))
    torch._dynamo.reset()
    mending = session.mending_by(state)
    # Every compilation times its guards on a flushed cache, which costs more than the rest of it.
    timing = patch.object(guards, "profile_guard_manager", return_value=0.0)
    with mending, timing:
        return _run(
            program,
            lambda f: torch.compile(f, backend=backend or program.backend),
            lambda: noted.append([]),
        )


def _run(
    program: Program, wrap: Callable[..., Any], before_call: Callable[[], object] = lambda: None
) -> list[Observed]:
    """All calls, in a thread of their own: an exception left as `sys.exc_info()` ends with it."""
    seen: list[Observed] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            arguments = program.arguments()
            seen.extend(oracle._run(program.source, arguments, program.grad, wrap, before_call))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return seen


_TRACEBACK = re.compile(r"from user code:.*?(?=Set TORCHDYNAMO_VERBOSE)")
_FORBIDDEN = "Detected recompile when torch.compile stance is"
_NEGATIVE_ZERO = re.compile(r"-0\.0(?!\d)")


def _shown(seen: Observed, name: str) -> str:
    """A field as text, without what docs/semantics.md does not promise.

    That is the sign of a gradient that is zero; and where a break stays, log records carry the name
    of Dynamo's function, and Dynamo's own errors say which of its frames they were raised in. A
    stance forbids to compile a frame again, of which the guards are told that failed.
    """
    if name == "exception" and _FORBIDDEN in repr(seen.exception):
        return _FORBIDDEN
    text = _TRACEBACK.sub("", without_resumption(repr(getattr(seen, name))))
    return _NEGATIVE_ZERO.sub("0.0", text) if name == "gradients" else text


def _where(expected: list[Observed], actual: list[Observed]) -> tuple[int, str] | None:
    """The first call and the first field that differ."""
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        for name in FIELDS:
            if _shown(want, name) != _shown(got, name):
                return number, name
    return None


def _difference(expected: list[Observed], actual: list[Observed]) -> str:
    place = _where(expected, actual)
    if place is None:
        return ""
    number, name = place
    want, got = _shown(expected[number], name), _shown(actual[number], name)
    return f"call {number}: {name} is {got} instead of {want}"
