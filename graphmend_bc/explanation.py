"""Before and after: what stock torch.compile makes of a call, and what mending makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map

from graphmend_bc import session
from graphmend_bc.reporting.code_text import CodeChange
from graphmend_bc.reporting.compilations import CompiledFrame, FrameResult
from graphmend_bc.reporting.notebook import notebook_html
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

    def __repr__(self) -> str:
        return f"<Explanation: {self._summary()}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return notebook_html(self._summary(), self.mends, self.declines)

    def _summary(self) -> str:
        before, after = self.before, self.after
        return (
            f"{before.graph_count} graphs and {before.graph_break_count} breaks before, "
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
        return "\n".join([str(counts), *map(str, self.mends), *map(str, self.declines)])


def explain(function: Callable[..., Any], **compile_kwargs: Any) -> Callable[..., Explanation]:
    """Compare stock torch.compile with mending on one call.

    Args:
        function: a function or module.
        compile_kwargs: passed to `torch.compile`; the backend is "eager" unless given.

    Returns:
        A function: called with the arguments, it runs both arms on clones of them and returns an
        `Explanation`. State that the function itself holds is changed by both runs. What the call
        raises is raised.

    Example:
        >>> import graphmend_bc, torch
        >>> def scale(x):
        ...     if x.sum() > 0:
        ...         return x * 2
        ...     return x - 1
        >>> found = graphmend_bc.explain(scale)(torch.ones(2))
        >>> found.before.graph_break_count, found.after.graph_break_count
        (1, 0)
    """
    kwargs = {"backend": "eager", **compile_kwargs}

    def run(*args: Any, **kw: Any) -> Explanation:
        before, _ = _measure(function, kwargs, args, kw, mends=False)
        after, report = _measure(function, kwargs, args, kw, mends=True)
        return Explanation(before, after, report.mends, report.declines, report.rewrites)

    return run


def _measure(
    function: Callable[..., Any], compile_kwargs: dict[str, Any], args: Any, kw: Any, mends: bool
) -> tuple[Counts, Report]:
    state = session.new_state(mends=mends)
    results: list[FrameResult] = []
    state.on_frame.append(results.append)
    with session.mending_by(state):
        torch.compiler.reset()
        torch.compile(function, **compile_kwargs)(*_clones(args), **_clones(kw))
        report = state.report.copy()
        if mends:
            session.tell(report)
        torch.compiler.reset()
    reasons = tuple(r.break_reason for r in results if r.break_reason)
    graphs = sum(result.graphs for result in results)
    counts = Counts(
        graph_count=graphs,
        graph_break_count=max(graphs - 1, len(reasons)),
        skipped_frames=sum(r.skipped for r in results),
        break_reasons=reasons,
        frames=tuple(report.frames),
    )
    return counts, report


def _clones(values: Any) -> Any:
    """The same structure with copies of its tensors, gradients wanted where they were."""

    def clone(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(clone, values)
