"""What mending knows across frames: rewrites, plans that worked, the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from graphmend_bc import config
from graphmend_bc.dynamo.way_back import forget_compiled
from graphmend_bc.frame import Frame
from graphmend_bc.reports import FrameResult, Report
from graphmend_bc.rewrites import Key, Rewrites
from graphmend_bc.rewriting import Plan
from graphmend_bc.runtime import Site


@dataclass(slots=True)
class Mender:
    """Mends frames while it is enabled.

    Attributes:
        rewrites: rewritten code objects made so far.
        report: what was mended and declined since it was enabled or reset.
        proven: plans that succeeded before, by original code; later compilations start with them.
        left_alone: code objects that must not be rewritten.
        mends: False to compile as stock does and only observe.
        remember: False to start every compilation without `proven`.
        on_frame: called with each frame's result.
        misses: how often a frame fell back to its original code.
        given_up: sites that are not speculated on any more.
    """

    rewrites: Rewrites = field(default_factory=Rewrites)
    report: Report = field(default_factory=Report)
    proven: dict[Key, Plan] = field(default_factory=dict)
    left_alone: set[CodeType] = field(default_factory=set)
    mends: bool = True
    remember: bool = True
    on_frame: list[Callable[[FrameResult], None]] = field(default_factory=list)
    misses: Counter[Key] = field(default_factory=Counter)
    given_up: set[Site] = field(default_factory=set)

    def forget(self) -> None:
        """Forget mends, plans and counts; rewritten code stays known."""
        self.report = Report()
        self.proven.clear()
        self.misses.clear()
        self.given_up.clear()

    def missed(self, code: CodeType, sites: tuple[Site, ...]) -> None:
        """A frame fell back to its original code; past the limit its speculations are given up."""
        key = Key.of(code)
        self.misses[key] += 1
        if sites and self.misses[key] >= config.miss_limit:
            self.misses[key] = 0
            self.given_up.update(sites)
            forget_compiled(code)

    def without_given_up(self, key: Key, plan: Plan) -> Plan:
        """A plan without the sites that are not speculated on any more."""
        for site in self.given_up:
            if key.holds(site):
                plan = plan.without(site.offset)
        return plan

    def compile(
        self, stock: Callable[..., Any], code: CodeType, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Compile one frame, mended where that is exact; Dynamo's `compile_frame` otherwise."""
        return Frame(self, stock, code, args, kwargs).compile()
