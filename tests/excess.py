"""Whether mending left a program in more pieces than stock `torch.compile` makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from graphmend_bc.reporting.report import FrameResult

Frames: TypeAlias = Sequence[Sequence[FrameResult]]
"""The frames that were compiled in each call of a program."""


_REST: Final = "step_unsupported"
"""What torch calls a break where it cannot go on: Python runs the rest of the frame."""


def may_exceed_stock(mended: Frames) -> bool:
    """False where nothing has to be compared: one graph for all calls, and no break."""
    return _breaks(mended) > 0 or _graphs(mended) > 1


def excess_over(stock: Frames, mended: Frames, fullgraph: bool) -> str:
    """In what a mended program is in more pieces than the same program under stock.

    Args:
        stock, mended: what was compiled in each call, the same calls in the same order.
        fullgraph: whether it was compiled with `fullgraph=True`. Stock makes symbols of all numbers
            there, proven or not, and need not compile again for others.

    Returns:
        A sentence, or nothing if mending costs no piece more:

        * it leaves no more breaks than stock has, recompilations counted, unless stock skips a frame,
          which is then all in pieces, or the rest of one;
        * the first call makes no more graphs, or one: nothing was compiled for another value yet. A
          break that is mended may be a graph, where copies for later are all that there is;
        * what stock has whole is compiled no more often; a frame that it skips is not whole.
    """
    breaks, more = _breaks(stock), _breaks(mended)
    if more > breaks and not _skips(stock):
        return f"Mended, {more} breaks are left; stock has {breaks}."
    graphs, more = _graphs(stock[:1]), _graphs(mended[:1])
    mended_breaks = _breaks(stock[:1]) - _breaks(mended[:1])
    if more > max(graphs + mended_breaks, 1) and not _skips(stock[:1]):
        return f"Mended, the first call makes {more} graphs; stock makes {graphs}."
    graphs, more = _graphs(stock), _graphs(mended)
    if not (breaks or fullgraph or _skips(stock)) and more > graphs:
        return f"Stock has no break and makes {graphs} graphs; mended, there are {more}."
    return ""


def _breaks(frames: Frames) -> int:
    return sum(bool(frame.break_reason) for call in frames for frame in call)


def _graphs(frames: Frames) -> int:
    return sum(frame.graphs for call in frames for frame in call)


def _skips(frames: Frames) -> bool:
    """True if stock runs some frame eagerly, or the rest of one, which counts as no graph."""
    return any(frame.skipped or frame.break_reason == _REST for call in frames for frame in call)
