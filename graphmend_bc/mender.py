"""What mending knows across frames: rewrites, plans that worked, the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from graphmend_bc.frame import Frame
from graphmend_bc.library import Key, Library
from graphmend_bc.reports import FrameResult, Report
from graphmend_bc.rewriting import Plan


@dataclass(slots=True)
class Mender:
    """Mends frames while it is enabled.

    Attributes:
        library: rewrites made so far.
        report: what was mended and declined since it was enabled or reset.
        proven: plans that succeeded before, by original code; later compilations start with them.
        left_alone: code objects that must not be rewritten.
        mends: False to compile as stock does and only observe.
        remember: False to start every compilation without `proven`.
        on_frame: called with each frame's result.
    """

    library: Library = field(default_factory=Library)
    report: Report = field(default_factory=Report)
    proven: dict[Key, Plan] = field(default_factory=dict)
    left_alone: set[CodeType] = field(default_factory=set)
    mends: bool = True
    remember: bool = True
    on_frame: list[Callable[[FrameResult], None]] = field(default_factory=list)

    def forget(self) -> None:
        """Forget mends, plans and counts; rewritten code stays known."""
        self.report = Report()
        self.proven.clear()

    def compile(
        self, stock: Callable[..., Any], code: CodeType, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Compile one frame, mended if that is exact; the same contract as Dynamo's `compile_frame`."""
        return Frame(self, stock, code, args, kwargs).compile()
