"""Before and after: what stock torch.compile makes of a call, and what mending makes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch

from graphmend_bc import session
from graphmend_bc.call_timing import CallTimer, Rest
from graphmend_bc.dynamo.graph import inductor
from graphmend_bc.reporting.call_times import CallTimes, Timed
from graphmend_bc.reporting.code_text import CodeChange
from graphmend_bc.reporting.compilations import CompiledFrame, FrameResult
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.notebook import notebook_html
from graphmend_bc.reporting.outcomes import Outcome, Speculated
from graphmend_bc.reporting.references import as_text
from graphmend_bc.reporting.report import Decline, Mend, Report
from graphmend_bc.reporting.table import Table


@dataclass(frozen=True, slots=True)
class Counts:
    """What compiling one call came to.

    Attributes:
        graph_count: graphs that were compiled.
        graph_break_count: graphs less one, as torch._dynamo.explain counts, or the places where a
            graph ended before its frame did, if these are more.
        skipped_frames: frames that Dynamo skipped and ran eagerly.
        break_reasons: Dynamo's texts, one for each break.
        frames: the compilations.
    """

    graph_count: int
    graph_break_count: int
    skipped_frames: int
    break_reasons: tuple[str, ...]
    frames: tuple[CompiledFrame, ...] = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """The result of `explain`.

    Attributes:
        before: stock torch.compile.
        after: with mending.
        mends: what was mended.
        declines: what was left, and why.
        rewrites: the bytecode that was rewritten, before and after.
        speculations: how the speculations of the mended calls went, by site.
        speculated: in how many mended calls a check failed, of all graphs together.
        times: how long calls took; None if that was not asked for, or could not be measured.
        untimed: why it could not be measured.

    Example:
        >>> none = Counts(graph_count=1, graph_break_count=0, skipped_frames=0, break_reasons=())
        >>> print(Explanation(none, none, [], []))
                        before  after
        graphs               1      1
        breaks               0      0
        skipped frames       0      0
    """

    before: Counts
    after: Counts
    mends: list[Mend]
    declines: list[Decline]
    rewrites: list[CodeChange] = field(default_factory=list, compare=False)
    speculations: list[Outcome] = field(default_factory=list)
    speculated: Speculated = field(default_factory=Speculated)
    times: Timed | None = None
    untimed: str = ""

    def __repr__(self) -> str:
        return f"<Explanation: {self._summary()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return notebook_html(self._summary(), self.mends, self.declines)

    def _summary(self) -> str:
        before, after = self.before, self.after
        return (
            f"{many(before.graph_count, 'graph')} and "
            f"{many(before.graph_break_count, 'break')} before, "
            f"{after.graph_count} and {after.graph_break_count} after; "
            f"{len(self.mends)} mended, {len(self.declines)} declined"
        )

    def __str__(self) -> str:
        rows = []
        for label, name in (
            ("graphs", "graph_count"),
            ("breaks", "graph_break_count"),
            ("skipped frames", "skipped_frames"),
        ):
            rows.append([label, str(getattr(self.before, name)), str(getattr(self.after, name))])
        counts = Table(["", "before", "after"], rows, right=frozenset({1, 2}))
        said = [f"{self.speculated}.".capitalize()] if self.speculated != Speculated() else []
        said += [self.untimed] if self.untimed else []
        if self.times is not None:
            said += [str(self.times.table()), self.times.gain(), *self.times.notes]
        return "\n".join([str(counts), *as_text(*self.mends, *self.declines), *said])


def explain(
    function: Callable[..., Any], *, seconds: float = 0.0, **compile_kwargs: Any
) -> Callable[..., Explanation]:
    """Compare stock torch.compile with mending on one call.

    Args:
        function: a function or module.
        seconds: if it is not 0, the call is made again and again for this long, in eager Python
            and as stock compiles it, and for as long once more in eager Python and mended. The
            explanation then says how long calls took. Inductor compiles with empty caches.
        compile_kwargs: passed to `torch.compile`; the backend is "eager" unless given.

    Returns:
        A function: called with the arguments, it runs both arms on clones of them and returns an
        `Explanation`. State that the function itself holds is changed by all runs. What the first
        call of either raises is raised.

    Example:
        >>> import graphmend_bc, torch
        >>> def scale(x):
        ...     if x.sum() > 0:
        ...         return x * 2
        ...     return x - 1
        >>> found = graphmend_bc.explain(scale)(torch.ones(2))
        >>> found.before.graph_break_count, found.after.graph_break_count
        (1, 0)
        >>> graphmend_bc.explain(scale, seconds=0.01)(torch.ones(2)).times.mended.first_ns > 0
        True
    """
    options = {"backend": "eager", **compile_kwargs}

    def run(*args: Any, **kw: Any) -> Explanation:
        timer = CallTimer(function, args, kw, seconds)
        if seconds:
            _load(options["backend"])
        stock = _measure(timer, options, mends=False)
        mended = _measure(timer, options, mends=True)
        report = mended.report
        times, untimed = _compared(timer, stock, mended) if seconds else (None, "")
        return Explanation(
            stock.counts,
            mended.counts,
            report.mends,
            report.declines,
            mended.rewrites,
            report.speculations,
            report.speculated,
            times,
            untimed,
        )

    return run


@dataclass(frozen=True, slots=True)
class _Measured:
    """One arm.

    Attributes:
        counts: of the first call.
        report: after all calls.
        first_ns: nanoseconds of the first call.
        rest: the calls at rest; what they raised, as text, if they could not be made.
        rewrites: the bytecode that was rewritten, some of which ends with what was compiled.
    """

    counts: Counts
    report: Report
    first_ns: int
    rest: Rest | str
    rewrites: list[CodeChange]


def _measure(timer: CallTimer, options: dict[str, Any], mends: bool) -> _Measured:
    state = session.new_state(mends=mends)
    results: list[FrameResult] = []
    state.on_frame.append(results.append)
    caches = inductor.empty_caches(options["backend"]) if timer.seconds else nullcontext()
    with caches, session.mending_by(state):
        torch.compiler.reset()
        compiled = torch.compile(timer.function, **options)
        first_ns = timer.once(compiled)
        counts = _counts(results, tuple(state.report.frames))
        rest = _at_rest(timer, compiled, results)
        report = state.report_now()
        if mends:
            session.tell(report)
        rewrites = report.rewrites
        torch.compiler.reset()
    return _Measured(counts, report, first_ns, rest, rewrites)


def _load(backend: object) -> None:
    """Do what only the first compilations of a process do, so that no version pays for it."""
    inductor.load(backend)
    for mends in (False, True):
        with session.mending_by(session.new_state(mends=mends)):
            torch.compile(_branching, backend="eager")(torch.ones(1))
            torch.compiler.reset()


def _branching(x: torch.Tensor) -> torch.Tensor:
    return x + 1 if x.sum() > 0 else x


def _counts(results: list[FrameResult], frames: tuple[CompiledFrame, ...]) -> Counts:
    reasons = tuple(r.break_reason for r in results if r.break_reason)
    graphs = sum(result.graphs for result in results)
    return Counts(
        graph_count=graphs,
        graph_break_count=max(graphs - 1, len(reasons)),
        skipped_frames=sum(r.skipped for r in results),
        break_reasons=reasons,
        frames=frames,
    )


def _at_rest(
    timer: CallTimer, compiled: Callable[..., Any], results: list[FrameResult]
) -> Rest | str:
    if not timer.seconds:
        return Rest()
    try:
        return timer.at_rest(compiled, results)
    except Exception as error:  # the call may be one that can be made but once
        return f"{type(error).__name__}: {error}"


def _compared(timer: CallTimer, stock: _Measured, mended: _Measured) -> tuple[Timed | None, str]:
    """The times of all versions, or why there are none."""
    if isinstance(stock.rest, str) or isinstance(mended.rest, str):
        error = stock.rest if isinstance(stock.rest, str) else mended.rest
        return None, f"The call could not be repeated, so no times are given: {error}"
    eager = CallTimes(stock.rest.first_eager_ns, stock.rest.eager_ns + mended.rest.eager_ns)
    beside = sorted(CallTimes(0, rest.eager_ns).median for rest in (stock.rest, mended.rest))
    notes = []
    if timer.varies():
        notes.append(
            "Two eager calls with the same arguments and random numbers gave different results: "
            "what they compute from changes from call to call, so they are not the same call."
        )
    changing = [
        name
        for name, rest in (("stock", stock.rest), ("mended", mended.rest))
        if not rest.is_settled
    ]
    if changing:
        notes.append(
            f"One call after the other was compiled anew ({' and '.join(changing)}): "
            "what the guards of the compiled code check changes from call to call."
        )
    timed = Timed(
        eager,
        CallTimes(stock.first_ns, stock.rest.own_ns),
        CallTimes(mended.first_ns, mended.rest.own_ns),
        beside[1] / beside[0],
        tuple(notes),
        not changing,
    )
    return timed, ""
