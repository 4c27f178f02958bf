"""When each frame was compiled, with its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from graphmend_bc.reporting.compilations import CompiledFrame
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.durations import duration

_MOST: Final = 200
"""Compilations that are shown: those that took longest."""


@dataclass(frozen=True, slots=True)
class Bar:
    """An attempt on the line of its frame.

    Attributes:
        left, width: in parts of the whole, in percent.
        failed_at: what it failed at; empty if its result is in use.
        time: how long it took.
    """

    left: float
    width: float
    failed_at: str
    time: str


@dataclass(frozen=True, slots=True)
class Line:
    """A compilation.

    Attributes:
        name, place: of the frame.
        outcome: what came of it.
        time: how long it took.
        bars: its attempts.
    """

    name: str
    place: str
    outcome: str
    time: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The compilations in their order.

    Attributes:
        lines: one for each.
        time: from the beginning of the first to the end of the last.
        left_out: how many shorter ones are not shown.
    """

    lines: tuple[Line, ...]
    time: str
    left_out: int = 0

    @classmethod
    def of(cls, frames: Sequence[CompiledFrame]) -> Timeline | None:
        """That of some compilations; None if there are none.

        Args:
            frames: in their order.
        """
        frames = [frame for frame in frames if frame.attempts]
        if not frames:
            return None
        begin = min(attempt.begun_ns for frame in frames for attempt in frame.attempts)
        end = max(a.begun_ns + a.ns for frame in frames for a in frame.attempts)
        longest = {id(frame) for frame in sorted(frames, key=lambda frame: -frame.ns)[:_MOST]}
        shown = [frame for frame in frames if id(frame) in longest]
        lines = tuple(_line(frame, begin, max(end - begin, 1)) for frame in shown)
        return cls(lines, duration(end - begin), len(frames) - len(shown))


def _line(frame: CompiledFrame, begin: int, whole: int) -> Line:
    bars = (
        Bar(
            round(100 * (attempt.begun_ns - begin) / whole, 2),
            round(100 * attempt.ns / whole, 2),
            attempt.failed_at,
            duration(attempt.ns),
        )
        for attempt in frame.attempts
    )
    site = frame.site
    place = f"{site.filename}:{site.lineno}"
    return Line(site.function, place, _outcome(frame), duration(frame.ns), tuple(bars))


def _outcome(frame: CompiledFrame) -> str:
    if frame.skipped:
        return "left to eager Python"
    graphs = many(len(frame.operators), "graph")
    return f"{graphs}, then a break" if frame.break_reason else graphs
