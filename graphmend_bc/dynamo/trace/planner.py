"""What a trace asks those who plan its frame, and whom its graph tells what became of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from types import CodeType
from typing import TYPE_CHECKING, Protocol

from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.runtime import MarkedCallee, Site, Speculate

if TYPE_CHECKING:
    from graphmend_bc.dynamo.trace.compilation import Trace


class Planner(Protocol):
    """The plans of one frame, which its traces read and widen."""

    @property
    def called_as(self) -> Container[str]:
        """Names under which calls that only observe are called."""

    def code_for(self, code: CodeType) -> CodeType:
        """The code object to trace in place of one."""

    def rewrites(self) -> bool:
        """Whether anything is rewritten; it may be known only when its code is met."""

    def is_declined(self, site: Site) -> bool:
        """Whether a site must not be mended; a resume function may hold it already rewritten."""

    def site_at(self, code: CodeType, offset: int) -> Site:
        """The user's site for an instruction of a code object that is traced."""

    def likely(self, asked: Speculate, occurrence: int, seen: Callable[[], bool | None]) -> bool:
        """The value to assume at a site.

        Args:
            asked: where a truth value is asked for, and what the bytecode suggests.
            occurrence: how often the trace came by it before.
            seen: gives what is seen in this call; asked where nothing is known from others.
        """

    def note_capture(self, code: CodeType, offset: int) -> Site:
        """Dynamo makes a symbol at an instruction; gives the user's site."""

    def may_inline(self) -> bool:
        """Whether regions that are to be compiled once may be inlined, whatever else is mended."""

    def inlines(self, code: CodeType) -> bool:
        """Whether a region that is to be compiled once is inlined; `RegionBreaks` says so."""

    def selects(self, site: Site, *, flips: bool) -> bool:
        """Whether the graph selects one of the numbers that the arms of a branch give.

        Args:
            site: the branch.
            flips: whether it is known to go both ways.
        """

    def fails_again(self, site: Site) -> bool:
        """Whether checks of speculations at a site have failed more than once."""

    def marks_calls_in(self, code: CodeType) -> bool:
        """Whether calls that only observe are marked in a code object that is traced."""

    def note_mark(self, site: Site) -> bool:
        """Such a call was met; False if something else becomes of it."""

    def replacement_at(self, code: CodeType, offset: int) -> CodeType | None:
        """The code object in which a trace goes on at a jump on a tensor; None for the same."""

    def form_after(self, code: CodeType, site: Site, refused: Refused) -> CodeType | None:
        """The code object in which a trace goes on after the rewritten form of a jump was refused.

        None if the attempt ends.
        """

    def mark_at(
        self, trace: Trace, found: Break, is_marked: bool, again: bool
    ) -> MarkedCallee | None:
        """The mark with which a call that breaks the graph is made again; None if it is not.

        Args:
            trace: the attempt.
            found: the break.
            is_marked: whether the callee is marked already.
            again: whether it is the mark that was last given here.
        """

    def survey_at(self, code: CodeType, offset: int) -> Speculate | None:
        """Which way an attempt goes on at a jump that no plan covers; None where it ends."""

    def speculation_after(self, site: Site, refused: Refused) -> Speculate | None:
        """The speculation that is planned next for a branch whose arms cannot both be computed.

        None if something else is.
        """


class GraphOutcomes(Protocol):
    """Told by a compiled graph, as long as it lives, what it rested on wrongly."""

    def graph_failed(self, tally: Tally, wrong: Sequence[int]) -> None:
        """Speculations were wrong, of which the tally has the numbers; none if the graph raised."""

    def site_failed(self, site: Site, reason: str, what: str) -> None:
        """The graph was no good because of a site that is no speculation; what was wrong there."""

    def failed(self, error: Exception) -> None:
        """An error of ours, while a graph ran: the original code of the frame runs."""
