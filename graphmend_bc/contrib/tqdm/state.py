"""The bars that a frame makes, and the loops over them, in one attempt at tracing it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.contrib.tqdm.bars import Clock
from graphmend_bc.dynamo.host_values.epilogue_calls import MadeVariable, Note
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


class MadeBar(Protocol):
    """A bar that will be made after the graph.

    Attributes:
        site: the call that makes it.
        stand: what it is made by.
        iterable: what it goes over, if it does.
        compilation: what is being compiled.
        closed: whether it is closed by now, whatever the values of tensors.
        frame: the outermost frame of the program's that is being traced.
    """

    site: Site
    stand: MadeVariable
    iterable: VariableTracker | None
    compilation: Compilation
    closed: bool
    frame: InstructionTranslatorBase | None

    def note(
        self, tx: InstructionTranslatorBase, method: VariableTracker, args: TupleVariable
    ) -> Note:
        """Put something that is done with the bar off until after the graph."""

    def close(self, tx: InstructionTranslatorBase) -> None:
        """Note that the bar is closed."""


class LoopOverBar(Protocol):
    """A loop over such a bar.

    Attributes:
        bar: the bar.
        is_running: whether it has given an item and may give another.
        loop: what the loop has on its stack; None if something else may hold it.
    """

    bar: MadeBar
    is_running: bool
    loop: VariableTracker | None

    @property
    def is_left(self) -> bool:
        """Whether the loop was left before its end."""

    def leave(self, tx: InstructionTranslatorBase) -> None:
        """Note that Python lets go of what it goes over."""


@dataclass(slots=True, eq=False)
class Bars(Feature):
    """The bars of one attempt.

    Attributes:
        made: the bars, in order.
        loops: loops over them, in the order in which they began.
        clock: tells them when the graph began.
    """

    order: ClassVar[int] = 0  # what ends with the graph becomes a deferred call

    made: list[MadeBar] = field(default_factory=list)
    loops: list[LoopOverBar] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        """The same graph, which tells the bars when it begins."""
        return self.clock.timing(graph) if self.made else graph

    def before_effect(self, tx: InstructionTranslatorBase) -> None:
        """Note the end of loops that were left since the last note.

        Raises:
            SiteRefused: several were left at once, and their order is not known.
        """
        left = [loop for loop in self.loops if loop.is_left]
        if len({id(loop.loop) for loop in left}) < len(left):
            raise SiteRefused(Refused("bar-escapes", "Two bars end together."), left[0].bar.site)
        for loop in reversed(left):  # Python lets go of the innermost loop first
            loop.leave(tx)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """No bar may be left that Python would close later.

        A bar that nobody closes is closed when the function returns, if it is one of its variables.

        Raises:
            SiteRefused: it is not known when a bar would be closed.
        """
        self.before_effect(tx)
        for loop in self.loops:
            if loop.is_running:
                refused = Refused("bar-escapes", "A loop over it is not over.")
                raise SiteRefused(refused, loop.bar.site)
        still_open = [bar for bar in self.made if not bar.closed]
        if not still_open:
            return
        bar = still_open[-1]
        variables: list[Any] = [] if bar.frame is None else [*bar.frame.symbolic_locals.values()]
        if is_break or len(still_open) > 1 or not any(value is bar for value in variables):
            refused = Refused("bar-escapes", "It is still open when the graph ends.")
            raise SiteRefused(refused, bar.site)
        bar.close(tx)


def check_not_in_arm(compilation: Compilation) -> None:
    """Refuse an arm of a branch that makes a bar, or goes over one.

    Raises:
        SiteRefused: an arm is being traced that may not be the one that is taken.
    """
    arms = compilation.trace.arms
    if arms:
        refused = Refused("arm-changes-state", "It makes a progress bar or goes over one.")
        raise SiteRefused(refused, arms[-1])
