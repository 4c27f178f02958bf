"""What is known of graph breaks that ended the graph of a frame.

An enclosing frame meets a break in what it calls before the callee is compiled as a frame of its
own, and before what goes on after the break is. They begin with what it found out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphmend_bc.dynamo.frames.breaks import Break
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.report import Decline
from graphmend_bc.rewriting import Plan
from graphmend_bc.runtime import CodeId, Site

_IN_EVERY_FRAME = frozenset(
    {
        "break-requested",
        "call-not-traced",
        "callee-not-found",
        "left-alone",
        "not-optimized-code",
        "strategy-off",
        "torch-differs",
        "unhandled-instruction",
    }
)
"""Reasons that depend on the instruction and the callee, not on the frame that is compiled."""

_ENOUGH = 2
"""Compilations of a frame, for one input and for another, that say what becomes of the third."""

BreakPlace = tuple[CodeId, str, object]


@dataclass(frozen=True, slots=True)
class CutPlan:
    """A plan with which a frame was traced up to a break that ended its graph.

    Nothing of it need have been mended there: the break may be in the same callee.

    Attributes:
        plan: what is planned.
        gb_types: what Dynamo calls the breaks at its sites, as far as it met them.
        passed_over: why no cheaper rule mends a site.
        settings: those that rules depend on.
    """

    plan: Plan
    gb_types: Mapping[Site, str]
    passed_over: Mapping[Site, Sequence[Refused]]
    settings: object


@dataclass(frozen=True, slots=True)
class LeftBreak:
    """A break that no rule mends.

    Attributes:
        text: what Dynamo says of it.
        settings: those that rules depend on.
        decline: what is reported of it.
        everywhere: whether the reasons hold in every frame.
        compiled: in how many compilations of a frame in whose own code it is, by the frame.
    """

    text: str
    settings: object
    decline: Decline
    everywhere: bool
    compiled: Counter[CodeId] = field(default_factory=Counter)


@dataclass(slots=True)
class BreakMemory:
    """Breaks that were left to stock, and the plans of what was traced before them.

    Attributes:
        cut: by original code object.
        left: by place: the user's function, and the instruction and its position in the source.
    """

    cut: dict[CodeId, CutPlan] = field(default_factory=dict)
    left: dict[BreakPlace, LeftBreak] = field(default_factory=dict)

    def note_left(
        self,
        frame: CodeId,
        place: BreakPlace,
        found: Break,
        decline: Decline,
        refusals: Iterable[Refused],
        settings: object,
    ) -> None:
        """A frame was compiled up to a break that no rule mends.

        Args:
            frame: its own code.
            place: where the break is.
            found: the break.
            decline: what is reported of it.
            refusals: why each of the rules does not mend it.
            settings: those that rules depend on.
        """
        codes = {decline.reason, *(refused.reason.code for refused in refusals)}
        everywhere = codes <= _IN_EVERY_FRAME
        known = self.left.get(place)
        same = known is not None and (known.text, known.settings) == (found.text, settings)
        compiled = known.compiled if known is not None and same else Counter()
        compiled[frame] += decline.site.code is frame
        self.left[place] = LeftBreak(found.text, settings, decline, everywhere, compiled)

    def is_left(self, frame: CodeId, place: BreakPlace, settings: object, innermost: bool) -> bool:
        """Whether no rule mended a break at a place.

        Args:
            frame: own code of the frame that is compiled.
            place: it.
            settings: those that rules depend on.
            innermost: whether it is in that code. What it rests on may be an input of that frame,
                and is none of those between it and the one that met the break first.
        """
        known = self.left.get(place)
        if known is None or known.settings != settings:
            return False
        return known.everywhere or not innermost or known.compiled[frame] >= _ENOUGH

    def forget(self) -> None:
        """Forget everything."""
        self.cut.clear()
        self.left.clear()

    def forget_dead(self) -> None:
        """Forget what is known of code that is gone."""
        self.cut = {key: cut for key, cut in self.cut.items() if key.is_alive}
        self.left = {place: left for place, left in self.left.items() if place[0].is_alive}
