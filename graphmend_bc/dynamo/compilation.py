"""What one compilation of one frame knows while it runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node

from graphmend_bc.dynamo.reading import Reads
from graphmend_bc.dynamo.recorder import Recorder
from graphmend_bc.legality.alias import Choice
from graphmend_bc.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.ahead import Ahead


class SiteRefused(Exception):
    """A rewritten site turned out not to be exact; the trace cannot be used.

    Args:
        site: the site.
        refused: why.
    """

    def __init__(self, site: Site, refused: Refused) -> None:
        self.site = site
        self.refused = refused
        super().__init__(f"{site}: {refused}")


@dataclass(slots=True)
class Trace:
    """One attempt at tracing the frame; thrown away with the attempt.

    Attributes:
        arms: sites whose arm is being traced, outermost first.
        used: sites that were mended so far, with the strategy.
        gb_types: what Dynamo would have called the breaks at sites mended before it met them.
        choices: what `where` chose, for the proof over the whole graph; by the node of the result.
        predicates: the branches around what is being traced, outermost first, each with the value
            under which its arm is taken.
        refused: sites that were met but could not be shown to be exact.
        snapshots: nodes that copy an effect's argument, with the number of writes before.
        effects: calls that run after the graph, in order.
        speculated: branches of which only the likely arm is in the graph.
        kept: values that must stay outputs of the graph although nothing uses them.
        missed: the argument of the check after the graph: whether any of them went the other way.
        ahead: looks whether an effect is about to raise, before the first one runs.
        may_raise: the effects it looks at, as it wants them.
        reads: the outputs of the graph that become Python values.
        formatted: nodes that copy a tensor when a text of it is made.
        can_be_taken_back: nothing is left of the graph if its results are thrown away, and somebody
            may want to: a check after it, or the effects it would lose by raising.
        recorder: listens to the fake tensor mode once a site needs it.
    """

    arms: list[Site] = field(default_factory=list)
    used: dict[Site, str] = field(default_factory=dict)
    gb_types: dict[Site, str] = field(default_factory=dict)
    choices: dict[Node, tuple[Site, Choice]] = field(default_factory=dict)
    snapshots: list[tuple[Node, int]] = field(default_factory=list)
    effects: list[Site] = field(default_factory=list)
    speculated: list[Site] = field(default_factory=list)
    missed: list[VariableTracker] = field(default_factory=list)
    kept: list[VariableTracker] = field(default_factory=list)
    predicates: list[tuple[TensorVariable, bool]] = field(default_factory=list)
    refused: dict[Site, Refused] = field(default_factory=dict)
    ahead: Ahead = field(default_factory=Ahead)
    may_raise: list[VariableTracker] = field(default_factory=list)
    reads: Reads = field(default_factory=Reads)
    formatted: set[Node] = field(default_factory=set)
    can_be_taken_back: bool = False
    recorder: Recorder | None = None

    def listen(self, mode: FakeTensorMode) -> Recorder:
        """The recorder on the trace's fake tensor mode, started when first needed."""
        if self.recorder is None:
            self.recorder = Recorder(mode)
        return self.recorder

    def close(self) -> None:
        """Stop listening."""
        if self.recorder is not None:
            self.recorder.detach()
            self.recorder = None


@dataclass(slots=True)
class Compilation:
    """One call of Dynamo's `compile_frame` under us.

    Attributes:
        code_for: gives the code object to trace in place of one.
        trace: the attempt that is running.
        has_plans: whether some code object is rewritten, or may be before the trace ends.
        declined: sites that must not be mended; a resume function may hold them already rewritten.
        graphs: how many graphs were handed to the backend.
    """

    code_for: Callable[[CodeType], CodeType]
    has_plans: Callable[[], bool]
    declined: Container[Site] = ()
    trace: Trace = field(default_factory=Trace)
    graphs: int = 0

    def start_trace(self) -> None:
        """Forget the last attempt; Dynamo is about to trace the frame from its start."""
        self.trace.close()
        self.trace = Trace()


_CURRENT: ContextVar[Compilation | None] = ContextVar("graphmend_bc_compilation", default=None)


def current() -> Compilation | None:
    """The innermost compilation that is running in this context."""
    return _CURRENT.get()


@contextmanager
def running(compilation: Compilation) -> Iterator[None]:
    """Make `compilation` the current one; its trace is closed at the end."""
    token = _CURRENT.set(compilation)
    try:
        yield
    finally:
        compilation.trace.close()
        _CURRENT.reset(token)
