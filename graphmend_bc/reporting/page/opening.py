"""What stands above the rows of a page: figures, and what a reader should know first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING

from graphmend_bc.reporting.compilations import CompiledFrame
from graphmend_bc.reporting.counts import many, verb
from graphmend_bc.reporting.durations import duration
from graphmend_bc.reporting.page.words import STRATEGIES
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.reporting.table import Table

if TYPE_CHECKING:
    from graphmend_bc.reporting.report import Decline, Mend, Report

_MOST_KINDS = 3
_MOST_WAYS = 4
_MOST_HINTS = 3


@dataclass(frozen=True, slots=True)
class Opening:
    """What stands above the rows of a page.

    Attributes:
        figures: by their names.
        counts: a table below them.
        notes: sentences below that.
        provenance: what the page was made by.
        stock: what stock torch.compile compiled, if that was tried.
        is_timed: whether the table and the notes say how long calls took.
    """

    figures: Mapping[str, str]
    counts: Table | None = None
    notes: Sequence[str] = ()
    provenance: Provenance = field(default_factory=Provenance.here)
    stock: Sequence[CompiledFrame] = ()
    is_timed: bool = False

    @classmethod
    def of(cls, report: Report) -> Opening:
        """What a report says of all places together."""
        calls, failed = report.speculated.calls, report.speculated.failed
        figures = {
            "mended": len(report.mends),
            "declined": len(report.declines),
            "graphs": report.compiled.graphs,
            "compilations": report.compiled.frames,
            "breaks left": report.compiled.breaks + report.compiled.skipped,
            "failed checks": f"{failed} of {many(calls, 'call')}",
            "cost of failed checks": duration(report.lost_ns),
        }
        return cls({name: str(value) for name, value in figures.items()})


@dataclass(frozen=True, slots=True)
class Answer:
    """A question that a reader has, and its answer.

    Attributes:
        question: the question.
        sentences: the answer.
        items: parts of it that are listed.
    """

    question: str
    sentences: Sequence[str]
    items: Sequence[str] = ()


def answers_of(report: Report, opening: Opening) -> list[Answer]:
    """What a reader who knows nothing of graph breaks should learn first.

    Args:
        report: what was found.
        opening: what else stands above the rows.
    """
    if report.refused:
        return [Answer("Why was nothing mended?", [report.refused])]
    return [
        _wrong(report),
        _mended(report),
        Answer("What does it save or cost?", [*_savings(report, opening), *_costs(report)]),
        _to_change(report),
    ]


def _wrong(report: Report) -> Answer:
    question = "What was wrong?"
    entries: list[Mend | Decline] = [*report.mends, *report.declines]
    found = len({entry.site for entry in entries})
    if not found:
        return Answer(question, ["Nothing: no graph break was met."])
    kinds = Counter(entry.gb_type for entry in entries if entry.gb_type)
    items = [f"{kind} ({count})" for kind, count in kinds.most_common(_MOST_KINDS)]
    return Answer(
        question,
        [
            f"torch.compile alone cannot trace {many(found, 'place')} of this program. At each it "
            "breaks the graph: what was compiled ends, Python goes on, and another graph begins."
        ],
        items,
    )


def _mended(report: Report) -> Answer:
    mends, question = report.mends, "What was mended?"
    left = report.compiled.breaks + report.compiled.skipped
    if not mends:
        return Answer(question, ["Nothing."])
    ways = Counter(mend.strategy for mend in mends)
    sentences = [f"{many(len(mends), 'place')} {verb(len(mends), 'is', 'are')} mended."]
    if not left:
        sentences.append("No compiled graph ends at a break any more.")
    else:
        sentences.append(f"{many(left, 'break')} {verb(left, 'is', 'are')} left.")
    items = [f"{way} ({count}): {_meaning(way)}" for way, count in ways.most_common(_MOST_WAYS)]
    return Answer(question, sentences, items)


def _meaning(strategy: str) -> str:
    """A strategy in a sentence; users may have some of their own."""
    return STRATEGIES.get(strategy, "a rule of the program").replace("`", "")


def _savings(report: Report, opening: Opening) -> Iterator[str]:
    if not opening.stock:
        yield "Stock torch.compile was not run, so no time is compared here."
        return
    before, after = (
        f"{many(sum(len(frame.operators) for frame in frames), 'graph')} with "
        f"{many(sum(sum(frame.operators) for frame in frames), 'operator')}"
        for frames in (opening.stock, report.frames)
    )
    yield f"Compiled before: {before}; now: {after}. Python runs the rest."
    if opening.is_timed:
        yield "How long calls take stands below, with what that gains."


def _costs(report: Report) -> Iterator[str]:
    if report.speculated.calls:
        yield f"{str(report.speculated).capitalize()}."
    if report.lost_ns:
        yield f"Failed checks cost {duration(report.lost_ns)} in all."
    attempts = [attempt for frame in report.frames for attempt in frame.attempts]
    if attempts:
        yield f"Compiling took {duration(sum(attempt.ns for attempt in attempts))}."
    if failed := [attempt for attempt in attempts if attempt.failed_at]:
        spent = duration(sum(attempt.ns for attempt in failed))
        yield f"{spent} of that went into {many(len(failed), 'attempt')} that failed."


def _to_change(report: Report) -> Answer:
    question = "What to change?"
    if not report.declines:
        return Answer(question, ["Nothing: no place was declined."])
    sentences = [f"{many(len(report.declines), 'place')} could not be mended exactly."]
    hints = dict.fromkeys(
        f"{PurePath(decline.site.filename).name}:{decline.site.lineno}: {hint}"
        for decline in report.declines
        for hint in decline.hints[:1]
    )
    if len(hints) > _MOST_HINTS:
        sentences.append("The rows below have all hints; the first are:")
    return Answer(question, sentences, list(hints)[:_MOST_HINTS])
