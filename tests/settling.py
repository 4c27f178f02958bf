"""What a program costs over many calls, in counts: stock and mended side by side.

Nothing here is a time: the counts are the same in every run.
"""

from __future__ import annotations

import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import convert_frame

from graphmend_bc import session
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.reporting.report import Report
from tests.releases import executed

TWO_FUNCTIONS = """
def f(x):
    a = torch.sin if x[0] > 0 else torch.cos
    b = torch.exp if x[1] > 0 else torch.neg
    return b(a(x) + 1)
"""
"""No graph selects a function."""

SELECTED = """
def f(x):
    a = 1.5 if x[0] > 0 else 2
    b = 3 if x[1] > 0 else 5
    return (x * a + 1) * b
"""

GROWING_LIST = """
seen = []

def f(x):
    seen.append(x.sum().item())
    return x * len(seen)
"""


def conditions_in_loop(rounds: int) -> str:
    """A program in which a condition decides on a function in each round of a loop."""
    return f"""
def f(x):
    total = x.new_zeros(())
    for i in range({rounds}):
        total = (torch.sin if x[i] > 0 else torch.cos)(total)
    return total
"""


def signs(calls: int, numbers: int) -> list[tuple[torch.Tensor]]:
    """Vectors of random signs, the same in every run."""
    drawn = random.Random(1)
    return [
        (torch.tensor([drawn.choice((-1.0, 1.0)) for _ in range(numbers)]),) for _ in range(calls)
    ]


@dataclass(frozen=True)
class Counts:
    """What some calls cost.

    Attributes:
        attempts: traces of a frame, finished or not.
        compilations: frames that Dynamo was given to compile.
        graphs: graphs given to the backend.
        launches: runs of a graph.
        failed: runs of a graph whose results were thrown away, because a speculation was wrong.
    """

    attempts: int
    compilations: int
    graphs: int
    launches: int
    failed: int

    def __sub__(self, other: Counts) -> Counts:
        return Counts(
            self.attempts - other.attempts,
            self.compilations - other.compilations,
            self.graphs - other.graphs,
            self.launches - other.launches,
            self.failed - other.failed,
        )


@dataclass(frozen=True)
class Life:
    """What all calls cost, and what the last ones did.

    Attributes:
        total: of all calls.
        rest: of the calls at rest.
        report: what was mended and declined.
    """

    total: Counts
    rest: Counts
    report: Report


def live(
    source: str,
    calls: Sequence[tuple[Any, ...]],
    rest: int,
    *,
    mends: bool,
    same: bool = True,
    decisions: DecisionCache | None = None,
    before_call: Callable[[int], object] = lambda number: None,
    **options: Any,
) -> Life:
    """Run a program that is compiled, call by call, and count.

    Args:
        source: a module that defines `f`.
        calls: the arguments of each call.
        rest: how many of the last calls are those at rest.
        mends: whether graph breaks are mended.
        same: compare the result of each call with that of eager Python.
        decisions: what was kept on disk by other processes; nothing if None.
        before_call: made before each call, in eager Python too, with its number.
        options: further arguments of `torch.compile`.
    """
    eager = _defined(source)
    expected = []
    for number, args in enumerate(calls if same else ()):
        before_call(number)
        expected.append(eager(*_copied(args)))
    attempts = graphs = launches = 0
    frames: list[object] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: object) -> Callable[..., Any]:
        nonlocal graphs
        graphs += 1

        def run(*args: Any) -> Any:
            nonlocal launches
            launches += 1
            return gm.forward(*args)

        return run

    stock = convert_frame.compile_frame

    def compile_frame(*args: Any, **kwargs: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return stock(*args, **kwargs)

    state = session.new_state(mends=mends)
    state.decisions = decisions
    state.on_frame.append(frames.append)

    def counts() -> Counts:
        failed = sum(outcome.failed_checks for outcome in state.report_now().speculations)
        return Counts(attempts, len(frames), graphs, launches, failed)

    torch._dynamo.reset()
    convert_frame.compile_frame = compile_frame
    try:
        with session.mending_by(state):
            f = torch.compile(_defined(source), backend=backend, **options)
            before = counts()
            for number, args in enumerate(calls):
                if number == len(calls) - rest:
                    before = counts()
                before_call(number)
                result = f(*_copied(args))
                if same:
                    torch.testing.assert_close(result, expected[number], rtol=0, atol=0)
            after = counts()
            return Life(after, after - before, state.report_now())
    finally:
        convert_frame.compile_frame = stock


def graphs_by_call(function: Callable[..., Any], calls: Sequence[Any], **options: Any) -> list[int]:
    """How many graphs a mended function has by the end of each call.

    Args:
        function: of one argument.
        calls: what it is called with.
        options: of `torch.compile`.
    """
    frames: list[Any] = []
    state = session.new_state(mends=True)
    state.on_frame.append(frames.append)
    torch._dynamo.reset()
    with session.mending_by(state):
        compiled = torch.compile(function, backend="eager", **options)
        counts = []
        for call in calls:
            compiled(call)
            counts.append(sum(frame.graphs for frame in frames))
    return counts


def both(source: str, calls: list[tuple[Any, ...]], rest: int = 20) -> tuple[Life, Life]:
    """A program under stock and mended; that it gives what eager Python gives is checked."""
    stock, mended = (live(source, calls, rest, mends=mends) for mends in (False, True))
    assert mended.rest.compilations == mended.rest.attempts == 0
    return stock, mended


def _defined(source: str) -> Callable[..., Any]:
    module: dict[str, Any] = {"__name__": "settling", "torch": torch}
    executed(textwrap.dedent(source), "<settling>", module)
    function: Callable[..., Any] = module["f"]
    return function


def _copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args)
