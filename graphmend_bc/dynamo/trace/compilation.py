"""What one compilation of one frame knows while it runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Final

from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc.dynamo.frames.replacements import Replacements
from graphmend_bc.dynamo.graph.fx_nodes import last_node
from graphmend_bc.dynamo.trace.earlier_part import EarlierPart
from graphmend_bc.dynamo.trace.features import F, Feature, Features
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.dynamo.trace.planner import GraphOutcomes, Planner
from graphmend_bc.legality.storage import Choice
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.reporting.references import reference
from graphmend_bc.reporting.speculation_stats import Speculation
from graphmend_bc.runtime import Site


class SiteRefused(Exception):
    """A rewritten site turned out not to be exact; the trace cannot be used.

    Args:
        refused: why.
        sites: the site; several if each of them would be refused for the same reason.
    """

    def __init__(self, refused: Refused, *sites: Site) -> None:
        self.sites = sites
        self.refused = refused
        where, page = ", ".join(map(str, sites)), reference(refused.reason.code)
        super().__init__(f"{where}: {refused} ({page})")


class CallLeft(Exception):
    """This call of the frame runs as it is: it changes what later ones are compiled for.

    Args:
        site: what changes it.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(f"{site} changes what later calls are compiled for.")
        self.site = site


class TracedAnew(Exception):
    """The attempt ends, and the next one traces the frame in another way from its start."""


class TextsMoved(TracedAnew):
    """The text of an object is not as the program makes it; the frame has to be traced anew."""


class TakesPartLate(TracedAnew):
    """What was traced before a mend was found may not be as eager Python has it: trace it anew."""


class RegionBreaks(TracedAnew):
    """A region that is to be compiled once cannot be captured; the frame has to be traced anew.

    Args:
        code: of the region's function.
    """

    def __init__(self, code: CodeType) -> None:
        super().__init__(f"The graph breaks in the region {code.co_qualname}.")
        self.code = code


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
        effects: calls that run after the graph, in order.
        speculations: truth values that are assumed, each with a 0-dim bool tensor that is True if
            that was wrong.
        kept: values that must stay outputs of the graph although nothing uses them.
        questions: further outputs of the graph that only we look at: which speculations were wrong,
            if there are several, and whether any was.
        proven: whether there was a graph, and it was shown to be exact.
        listener: listens to the fake tensor mode from the start of a trace that may be mended.
        failure: an error of ours that Dynamo may have made another one of.
        features: what each feature keeps.
    """

    arms: list[Site] = field(default_factory=list)
    used: dict[Site, str] = field(default_factory=dict)
    gb_types: dict[Site, str] = field(default_factory=dict)
    choices: dict[Node, tuple[Site, Choice]] = field(default_factory=dict)
    predicates: list[tuple[TensorVariable, bool]] = field(default_factory=list)
    refused: dict[Site, Refused] = field(default_factory=dict)
    effects: list[Site] = field(default_factory=list)
    speculations: list[tuple[Speculation, TensorVariable]] = field(default_factory=list)
    kept: list[VariableTracker] = field(default_factory=list)
    questions: list[VariableTracker] = field(default_factory=list)
    proven: bool = False
    listener: Recorder | None = None
    failure: Exception | None = None
    features: Features = field(default_factory=Features)

    def of(self, kind: type[F]) -> F:
        """A feature's state, made if there is none yet."""
        return self.features.of(kind)

    def known(self, kind: type[F]) -> F | None:
        """A feature's state, if it has a part in the attempt."""
        return self.features.known(kind)

    def obliged(self, obligation: Callable[..., Any]) -> Sequence[Feature]:
        """The states that do something about an obligation; see `Features`."""
        return self.features.obliged(obligation)

    @property
    def mended(self) -> dict[Site, str]:
        """The sites that are mended in the attempt, each with its strategy."""
        found: dict[Site, str] = {}
        for feature in self.obliged(Feature.mended):
            found |= feature.mended()
        return found | self.used

    @property
    def recorder(self) -> Recorder | None:
        """What is known of the operators that ran so far."""
        return None if self.listener is None else self.listener.start()

    def listen(self, output: OutputGraph) -> Recorder:
        """The recorder on the trace's fake tensor mode, started when first needed."""
        self.listen_ahead(output)
        assert self.listener is not None
        return self.listener.start()

    def listen_ahead(self, output: OutputGraph) -> None:
        """Put operators aside, in case something of ours takes part in the trace later on."""
        if self.listener is None:
            # Dynamo runs a node's operators when it has made the node.
            self.listener = Recorder(output.fake_mode, lambda: last_node(output.graph), waits=True)

    def our_outputs(self) -> list[VariableTracker]:
        """Outputs of the graph that the frame does not ask for."""
        return [*self.kept, *self.questions]

    @property
    def has_failed(self) -> bool:
        """Whether there was an error of ours that Dynamo may have made another one of."""
        heard = self.listener is not None and self.listener.failure is not None
        return heard or self.failure is not None

    def close(self) -> None:
        """Stop listening."""
        if self.listener is not None:
            self.listener.detach()
            self.failure = self.failure or self.listener.failure
            self.listener = None


@dataclass(slots=True)
class Compilation:
    """One call of Dynamo's `compile_frame` under us.

    Attributes:
        code: the frame's own.
        planner: plans what the traces ask.
        outcomes: told by the graph what became of it.
        trace: the attempt that is running.
        may_mend: False if nothing is to be rewritten.
        goes_on: whether the attempt goes on where it meets something that no plan covers: in
            another form of the code, with a marked callee, or as a survey.
        follows: whether the frame goes on where a graph with a mend broke, or is a part of the
            user's function that Python calls there.
        was_mended: whether the function had a mend before.
        captures: whether Dynamo makes symbols of what is known only at run time.
        given_up: sites that were mended and are not any more, and why.
        guarded: conditions that flip: their values are computed before the graph and guarded.
        handlers: what rules make of the primitives that they mark, by the rules' names.
        draws: whether what NumPy and Python draw is drawn before the graph.
        one_graph: whether a graph break of the frame is an error.
        leaves: whether the frame may be left to eager Python: not where it must be one graph.
        sets_flags: whether tensors that stay may come to require a gradient when it is compiled,
            because the frame is about to be called: not where that happened too often.
        is_saved: whether the frame is compiled ahead of time, so that it can be saved: of what is
            compiled, only the backend's graph and the code around it are kept.
        as_stock: whether nothing of the program is to break the graph that does not break stock's,
            exact or not: stock makes one graph of the frame, and we do not.
        exact_asserts: whether an `assert` on a tensor is the branch that it is; Dynamo makes an
            operator of it that raises another exception.
        exact_texts: whether the code that makes the text of an object is traced.
        replacements: what the traces of this compilation were given.
        takes_up: told of a break that Dynamo is about to make; True if the attempt ends because
            another one may mend it. None where breaks are errors, or nothing is mended.
        left_break: whether a break was left to Dynamo, which ends the frame's graph.
        settings: of Dynamo's, that were changed on the way.
        graphs: how many graphs were handed to the backend.
        operators: how many operators each of them has.
    """

    code: CodeType
    planner: Planner
    outcomes: GraphOutcomes
    may_mend: bool
    goes_on: bool = False
    follows: bool = False
    was_mended: bool = False
    captures: bool = False
    given_up: Mapping[Site, Refused] = field(default_factory=dict)
    guarded: Container[Site] = ()
    handlers: Mapping[str, Callable[..., VariableTracker]] = field(default_factory=dict)
    draws: bool = False
    one_graph: bool = False
    leaves: bool = True
    sets_flags: bool = False
    is_saved: bool = False
    as_stock: bool = False
    exact_asserts: bool = True
    exact_texts: bool = False
    replacements: Replacements = field(default_factory=Replacements)
    takes_up: Callable[[Compilation, Exception], bool] | None = None
    left_break: bool = False
    trace: Trace = field(default_factory=Trace)
    settings: ExitStack = field(default_factory=ExitStack)
    graphs: int = 0
    operators: list[int] = field(default_factory=list)

    @property
    def takes_part(self) -> bool:
        """Whether the graph may be another one than without us; resume functions hold our code."""
        return self.planner.rewrites() or bool(self.trace.used) or self.follows

    @property
    def may_take_part(self) -> bool:
        """As `takes_part`; also where calls are met that may be deferred."""
        earlier = self.trace.known(EarlierPart)
        return self.takes_part or (earlier is not None and earlier.marks)

    def takes_part_here(self) -> bool:
        """As `takes_part`; what is traced depends on the answer."""
        if not self.takes_part:
            self.trace.of(EarlierPart).as_stock = True
        return self.takes_part

    def check_earlier_part(self) -> None:
        """Something of ours is about to take part in the trace.

        Raises:
            TakesPartLate: what was traced so far may not be as eager Python has it.
        """
        if self.trace.of(EarlierPart).as_stock:
            raise TakesPartLate

    @property
    def is_mended(self) -> bool:
        """Whether stock might have broken the graph of the frame, now or in an earlier call."""
        if self.trace.mended or self.follows or self.was_mended:
            return True
        return any(feature.corrects() for feature in self.trace.obliged(Feature.corrects))

    def traced_code(self, code: CodeType) -> CodeType:
        """The code object to trace in place of one that the running trace is about to call."""
        return self.replacements.answer(code, lambda: self.planner.code_for(code)) or code

    def mends(self, site: Site) -> bool:
        """False for a site that is to be traced as stock Dynamo does."""
        return self.may_mend and not self.planner.is_declined(site)

    def capture(self, settings: AbstractContextManager[Any]) -> None:
        """Let Dynamo make symbols for the rest of the attempt.

        Args:
            settings: the block of Dynamo's settings in which it does.
        """
        self.settings.enter_context(settings)
        self.captures = True
        self.settings.callback(setattr, self, "captures", False)

    def close(self) -> None:
        """The attempt has ended."""
        try:
            self.settings.close()
        finally:
            self.trace.close()

    def start_trace(self) -> None:
        """Forget the last attempt; Dynamo is about to trace the frame from its start."""
        self.close()
        self.trace = Trace()
        self.replacements.start_trace()


_CURRENT: Final[ContextVar[Compilation | None]] = ContextVar(
    "graphmend_bc_compilation", default=None
)


current: Final[Callable[[], Compilation | None]] = _CURRENT.get
"""Gives the innermost compilation that is running in this context. It is asked at every seam."""


def is_saving() -> bool:
    """Whether what is being compiled is to be saved."""
    compilation = current()
    return compilation is not None and compilation.is_saved


@contextmanager
def running(compilation: Compilation) -> Iterator[None]:
    """Make `compilation` the current one; its trace is closed at the end."""
    token = _CURRENT.set(compilation)
    try:
        yield
    finally:
        try:
            compilation.close()
        finally:
            _CURRENT.reset(token)
