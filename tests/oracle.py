"""The oracle: eager Python, rewritten code run by Python, and mended compiled code must agree.

`check` takes a little program as source text and the calls to make, runs the calls in three arms with a
module of their own each, and compares everything a user can see after every call. The answer it is
given says which lines are mended and which are declined:

    check('''
    def f(x):
        if x.sum() > 0:
            x = x * 2
        return x + 1
    ''', calls=[ones(3), -ones(3)], mends="where@2")
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import logging
import random
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.report import FrameResult
from graphmend_bc.runtime import Site
from graphmend_bc.testing.observation import FIELDS, Observed, observe_call
from graphmend_bc.testing.values import DATA, Records
from tests.excess import excess_over, may_exceed_stock
from tests.orders import Wanted, in_order, orders_to_make, wanted_in, without_guarded
from tests.releases import executed

_numbers = itertools.count()

PROGRAM = "<program>"
"""The file name of all programs."""


@dataclass(frozen=True)
class Outcome:
    """What compiling and running a program under mending came to."""

    graphs: int
    breaks: int
    mends: str
    declines: str


@dataclass(frozen=True)
class Change:
    """In place of a call: something that the program's surroundings do between calls.

    Attributes:
        source: statements, run in the program's globals.
    """

    source: str


def check(
    source: str,
    calls: Sequence[Any],
    mends: Wanted[str] = "",
    declines: Wanted[str] = "",
    breaks: Wanted[int] = 0,
    backend: str = "eager",
    grad: bool = False,
    orders: int | None = None,
    **compile_kwargs: Any,
) -> Outcome:
    """Compare the arms on a program, in each order of its calls.

    Args:
        source: a module that defines `f` and whatever else it needs; its first line is line 1. If it defines
            `change`, that is called before each call, with the call's number; if it defines `around`, each
            call is made inside the context that gives.
        calls: the argument tuples to call `f` with; a single argument need not be in a tuple; or changes between calls.
        mends, declines: None to accept anything; what the report must say, as "strategy@line" and "reason@line", sorted,
            with the name of the file in place of the line where that is not the program's. Additions to state
            ("accumulate@line") count only where one is named.
        breaks: None to accept any number; how many graph breaks must be left, skipped frames included,
            a frame that is compiled again counted again.
        backend: for `torch.compile`.
        grad: run a backward pass from the float outputs and compare gradients.
        orders: how many orders to make that begin with nothing compiled: the calls as given, the other
            way round, each twice. None for the calls as given and then the other way round, and for
            the other way round alone if a speculation follows the first call; `pytest --all-orders` makes
            them all.

    What is wanted holds in every order; a mapping by the names in `tests.orders` tells orders apart,
    and all of them are made then.

    Returns:
        What was seen under mending in the last order.
    """
    calls = [call if isinstance(call, tuple) else (call,) for call in calls]
    wanted: dict[str, Wanted[Any]] = {"mends": mends, "declines": declines, "breaks": breaks}
    tells_apart = any(isinstance(value, Mapping) for value in wanted.values())

    def compared(order: str) -> Outcome:
        return _compare(source, in_order(order, calls), backend, grad, **compile_kwargs)

    outcomes = {order: compared(order) for order in orders_to_make(orders, tells_apart)}
    last = [*outcomes.values()][-1]
    # A speculation compiles one way alone.
    if orders is None and "reversed" not in outcomes and "speculate" in last.mends:
        outcomes["reversed"] = compared("reversed")
    _assert_wanted(outcomes, **wanted)
    return last


def _compare(
    source: str, calls: Sequence[tuple[Any, ...]], backend: str, grad: bool, **compile_kwargs: Any
) -> Outcome:
    """Compare the arms on a program and one order of its calls."""
    expected = _run(source, calls, grad, lambda f: f)
    plain = _run(source, calls, grad, gm.rewrite)
    _assert_same(expected, plain, "rewritten code run by Python")
    state = session.new_state(mends=True)
    compiled, mended = _compiled(source, calls, backend, grad, state, **compile_kwargs)
    _assert_same(expected, compiled, "compiled code")
    # A call that raises ends in some piece, which need not be the same, and stock may leave modes on.
    whole = len([*itertools.takewhile(lambda call: call.exception is None, expected)])
    if may_exceed_stock(mended[:whole]):
        state_of_stock = session.new_state(mends=False)
        some = _first_calls(calls, whole)
        seen, stock = _compiled(source, some, backend, grad, state_of_stock, **compile_kwargs)
        fullgraph = bool(compile_kwargs.get("fullgraph"))
        excess = excess_over(stock, mended[:whole], fullgraph)
        # What stock gets wrong may cost a break to be right.
        assert not excess or seen != expected[:whole], excess
    frames = [frame for frames in mended for frame in frames]
    return Outcome(
        graphs=sum(frame.graphs for frame in frames),
        breaks=sum(bool(frame.break_reason) for frame in frames),
        mends=_at_places((m.strategy, m.site) for m in state.report.mends),
        declines=_at_places((d.reason, d.site) for d in state.report.declines),
    )


def _first_calls(calls: Sequence[tuple[Any, ...]], count: int) -> list[tuple[Any, ...]]:
    """So many calls, with the changes before them."""
    numbers = itertools.accumulate(not isinstance(call[0], Change) for call in calls)
    return [call for call, number in zip(calls, numbers, strict=True) if number <= count]


def _compiled(
    source: str,
    calls: Sequence[tuple[Any, ...]],
    backend: str,
    grad: bool,
    state: MendingState,
    **compile_kwargs: Any,
) -> tuple[list[Observed], list[list[FrameResult]]]:
    """What is seen under `state`, and the frames that were compiled in each call."""
    frames: list[list[FrameResult]] = []
    state.on_frame.append(lambda frame: frames[-1].append(frame))

    def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(f, backend=backend, **compile_kwargs)

    torch._dynamo.reset()
    with session.mending_by(state):
        return _run(source, calls, grad, wrap, lambda: frames.append([])), frames


def _assert_wanted(outcomes: dict[str, Outcome], **wanted: Wanted[Any]) -> None:
    for order, outcome in outcomes.items():
        for name, value in wanted.items():
            want, found = wanted_in(order, value), getattr(outcome, name)
            if name == "mends" and want is not None:
                found = without_guarded(found, want)
                found = found if "accumulate@" in want else _of_breaks(found)
            assert want is None or found == want, f"{order}: {name} are {found!r} in {outcomes}"


def _of_breaks(mends: str) -> str:
    """The mends of breaks; additions to state break nothing, and count where a test names them."""
    return " ".join(mend for mend in mends.split(" ") if not mend.startswith("accumulate@"))


def agrees(source: str, calls: Sequence[Any], **kwargs: Any) -> Outcome:
    """Compare the arms on a program, whatever is mended and declined."""
    return check(source, calls, mends=None, declines=None, breaks=None, **kwargs)


def _at_places(entries: Iterable[tuple[str, Site]]) -> str:
    """Lines of the program in order, then files of others, whose lines change with their versions."""
    own, others = set[tuple[int, str]](), set[tuple[str, str]]()
    for name, site in entries:
        if site.filename == PROGRAM:
            own.add((site.lineno, name))
        else:
            others.add((Path(site.filename).name, name))
    return " ".join(f"{name}@{place}" for place, name in [*sorted(own), *sorted(others)])


def load(source: str) -> types.ModuleType:
    """A module made of source text; every load has globals of its own and the same file name."""
    module = types.ModuleType(f"program_{next(_numbers)}")
    module.__dict__.update(torch=torch, logging=logging, nn=torch.nn, F=torch.nn.functional)
    sys.modules[module.__name__] = module  # Dynamo looks names of a function's module up there
    executed(textwrap.dedent(source).strip("\n"), PROGRAM, module.__dict__)
    return module


def _run(
    source: str,
    calls: Sequence[tuple[Any, ...]],
    grad: bool,
    wrap: Callable[..., Any],
    before_call: Callable[[], object] = lambda: None,
) -> list[Observed]:
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)
    logging.getLogger("program").setLevel(logging.NOTSET)  # programs set it; others start anew
    # A mode that stock leaves switched must not be met by the next arm.
    with (
        _warnings_of_programs() as warned,
        torch.set_grad_enabled(torch.is_grad_enabled()),
        _settings_put_back(),
    ):
        module = load(source)
        function = wrap(module.f)
        seen: list[Observed] = []
        for args in copy.deepcopy(calls):
            if isinstance(args[0], Change):
                exec(args[0].source, module.__dict__)
                continue
            if hasattr(module, "change"):
                module.change(len(seen))
            before_call()
            seen.append(_call(module, function, args, grad, warned))
        return seen


@contextlib.contextmanager
def _settings_put_back() -> Iterator[None]:
    """A block after which the settings of the process that programs change are as before."""
    dtype = torch.get_default_dtype()
    with torch._tensor_str.printoptions(), numpy.printoptions():
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            torch.compiler.set_stance("default")


@contextlib.contextmanager
def _warnings_of_programs() -> Iterator[list[object]]:
    """The warnings of programs, with their places; what others warn of is left alone."""
    warned: list[object] = []
    with warnings.catch_warnings():
        stock = warnings.showwarning

        def show(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
            # Those of torch's own code come once in a process, or once in a run of an operator.
            # NumPy warns of torch's `__array_wrap__`, which nothing calls where torch multiplies.
            if "Triggered internally at" in str(message) or "__array_wrap__" in str(message):
                return
            if filename in (PROGRAM, __file__):
                warned.append((str(message), category.__name__, filename, lineno))
            else:
                stock(message, category, filename, lineno, *rest)

        warnings.showwarning = show
        warnings.filterwarnings("default", module=r"program_\d+")
        yield warned


def _call(
    module: types.ModuleType,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    grad: bool,
    warned: list[object],
) -> Observed:
    around = getattr(module, "around", contextlib.nullcontext)

    def call(*args: Any) -> Any:
        with around():
            return function(*args)

    return observe_call(
        call, args, {}, lambda: _state(module), grad=grad, recorded=partial(_recorded, warned)
    )


@contextlib.contextmanager
def _recorded(warned: list[object], seen: Observed) -> Iterator[None]:
    """Note the log records of one logger, and the warnings of the program."""
    warned.clear()
    logger, handler = logging.getLogger("program"), Records(seen.log_records)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
    seen.warnings = list(warned)


def _state(module: types.ModuleType) -> list[Any]:
    """What a program may change: its globals, with the attributes of its objects and classes."""
    found: list[Any] = []
    for name, value in sorted(module.__dict__.items(), key=lambda item: item[0]):
        if name.startswith("__"):  # Python's or Dynamo's own
            continue
        if isinstance(value, torch.nn.Module):
            found += [*value.parameters(), *value.buffers()]
            found.append({k: v for k, v in vars(value).items() if not str(k).startswith("_")})
        elif isinstance(value, DATA):
            found.append(value)
        elif isinstance(value, random.Random):
            found.append(value.getstate())
        elif module.__name__ in (type(value).__module__, getattr(value, "__module__", None)):
            attributes = dict(getattr(value, "__dict__", {}))
            found.append({k: v for k, v in attributes.items() if not str(k).startswith("_")})
    return found


def _assert_same(expected: list[Observed], actual: list[Observed], arm: str) -> None:
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        for name in FIELDS:
            a, b = getattr(want, name), getattr(got, name)
            assert a == b, f"call {number}, {arm}: {name} differs\neager: {a}\n{arm}: {b}"
