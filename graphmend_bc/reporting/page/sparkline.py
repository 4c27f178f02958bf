"""In which calls checks failed, as a row of bars."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from graphmend_bc.reporting.outcomes import Outcome
from graphmend_bc.reporting.page.svg import Picture, may_draw

_BARS: Final = 24
_WIDTH: Final = 8
_HEIGHT: Final = 28


def sparkline(outcomes: Iterable[Outcome]) -> str:
    """The failed checks of a line over its calls, as SVG.

    Args:
        outcomes: of the speculations at the line.

    Returns:
        The picture; empty if no check failed, or the library is missing.
    """
    found = list(outcomes)
    runs = [run for known in found for run in known.failed_in]
    if not runs or not may_draw():
        return ""
    calls = max(last for _, last, _ in runs)
    calls = max(calls, *(known.calls for known in found))
    bars = min(_BARS, calls)
    counts = [0.0] * bars
    for first, last, failed in runs:
        places = range((first - 1) * bars // calls, (last - 1) * bars // calls + 1)
        for place in places:
            counts[place] += failed / len(places)
    picture = Picture("spark")
    picture.box(0, _HEIGHT, bars * _WIDTH, 1, "ground")
    for place, count in enumerate(counts):
        if count:
            height = max(2.0, (_HEIGHT - 2) * count / max(counts))
            picture.box(place * _WIDTH, _HEIGHT - height, _WIDTH - 1, height, "failed")
    return picture.finished(bars * _WIDTH, _HEIGHT + 1)
