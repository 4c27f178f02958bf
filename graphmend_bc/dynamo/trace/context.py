"""What one compilation of one frame knows while it runs."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import Guard, Source
from torch.fx import Node

from graphmend_bc.dynamo.graph.input_aliasing import Layout
from graphmend_bc.dynamo.graph.readback import Reads
from graphmend_bc.dynamo.graph.state_snapshot import Undo
from graphmend_bc.dynamo.trace.features import Features
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.alias import Choice
from graphmend_bc.reporting.guess_stats import Guessed, Tally
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.draws import Draws
from graphmend_bc.runtime.effect_preflight import Ahead


class SiteRefused(Exception):
    """A rewritten site turned out not to be exact; the trace cannot be used.

    Args:
        refused: why.
        sites: the site; several if each of them would be refused for the same reason.
    """

    def __init__(self, refused: Refused, *sites: Site) -> None:
        self.sites = sites
        self.refused = refused
        super().__init__(f"{', '.join(map(str, sites))}: {refused}")


class TextsMoved(Exception):
    """The text of an object is not as the program makes it; the frame has to be traced anew."""


@dataclass(slots=True)
class Trace:
    """One attempt at tracing the frame; thrown away with the attempt.

    Attributes:
        arms: sites whose arm is being traced, outermost first.
        arms_traced: how many arms were traced since the outermost branch of `arms` was met.
        used: sites that were mended so far, with the strategy.
        gb_types: what Dynamo would have called the breaks at sites mended before it met them.
        choices: what `where` chose, for the proof over the whole graph; by the node of the result.
        predicates: the branches around what is being traced, outermost first, each with the value
            under which its arm is taken.
        tally: counts the calls of the compiled graph if it rests on guesses.
        refused: sites that were met but could not be shown to be exact.
        functional: higher-order operators of ours, which change nothing but their results.
        depth: how many of them are around what is being traced.
        met: the program's objects that were met inside such operators, with their variables.
        counters: ints that a loop in the graph counts, known only at run time.
        snapshots: nodes that copy an effect's argument, with the number of writes before.
        effects: calls that run after the graph, in order.
        caches: how many functions that cache their results are around what is being traced.
        answers: what is guarded on that loggers answered, by where each is found.
        counting: objects that these calls change, each with a call.
        guesses: truth values that were taken for granted, each with a 0-dim bool tensor that is
            True if that was wrong.
        kept: values that must stay outputs of the graph although nothing uses them.
        drawn: predicates that may rest on random draws.
        questions: further outputs of the graph that only we look at: which guesses were wrong, if
            there are several, and whether any was.
        undo: how to take the graph back, if that can be done and somebody may want it: a wrong
            guess, or the effects it would lose by raising.
        ahead: looks whether an effect is about to raise, before the first one runs.
        may_raise: the effects it looks at, as it wants them.
        handled: those whose exception a handler of the program's would meet.
        objects: the arguments that it looks at, as it wants them.
        whole: effects that get an object as it is.
        proven: whether there was a graph, and it was shown to be exact.
        reads: the outputs of the graph that become Python values.
        captured: sites at which Dynamo made a symbol for what is known only at run time.
        symbols: these symbols, each with its site.
        hoisted: values computed before the graph: the site, and what it is in the call that is
            being compiled.
        counts: whether there are rows whose numbers are known.
        catches: whether a `warnings.catch_warnings` was entered.
        draws: calls before the graph that draw from NumPy's generator, in order.
        drawing: what they leave the generator as, if the graph is not used.
        formatted: copies of what texts were made of, as it was then.
        leaves_more: whether something is done after the graph, or before it in stock's, that a
            recomputation which stops in the graph would lose.
        kept_texts: texts that are shown by an effect, which was shown to be exact.
        texts_of_objects: whether one of them is made of an object.
        texts_folded: whether Dynamo made the text of an object while it traced.
        asserts: where an `assert` was met, by code object and offset.
        stock_asserts: whether Dynamo made operators of some.
        handles: whether one of the functions traced may handle an exception that the graph raises.
        leaves: tensors that the frame made require a gradient: the site, the node, and the number
            of writes before.
        written_back: storages that are written whether or not an arm is taken, with its branch.
        layout: how the graph's inputs must share memory when it runs.
        absent: guards on what was not found, or not guarded on by Dynamo.
        searched: classes that were searched for a name, each with it.
        classes: where the classes of the program's objects are found.
        ordered: dicts whose order matters, besides those that Dynamo knows.
        builtins: names that were not found among the globals, with the id of these; the globals.
        features: what ways to mend keep of the attempt.
        recorder: listens to the fake tensor mode once a site needs it.
    """

    arms: list[Site] = field(default_factory=list)
    arms_traced: int = 0
    used: dict[Site, str] = field(default_factory=dict)
    gb_types: dict[Site, str] = field(default_factory=dict)
    choices: dict[Node, tuple[Site, Choice]] = field(default_factory=dict)
    functional: dict[Node, Site] = field(default_factory=dict)
    depth: int = 0
    met: list[tuple[object, VariableTracker]] = field(default_factory=list)
    counters: list[tuple[Site, VariableTracker]] = field(default_factory=list)
    snapshots: list[tuple[Node, int]] = field(default_factory=list)
    effects: list[Site] = field(default_factory=list)
    caches: int = 0
    answers: dict[Source, Any] = field(default_factory=dict)
    counting: list[tuple[VariableTracker, Site]] = field(default_factory=list)
    guesses: list[tuple[Guessed, TensorVariable]] = field(default_factory=list)
    questions: list[VariableTracker] = field(default_factory=list)
    drawn: list[TensorVariable] = field(default_factory=list)
    kept: list[VariableTracker] = field(default_factory=list)
    predicates: list[tuple[TensorVariable, bool]] = field(default_factory=list)
    refused: dict[Site, Refused] = field(default_factory=dict)
    undo: Undo | None = None
    layout: Layout | None = None
    leaves: list[tuple[Site, Node, int]] = field(default_factory=list)
    written_back: dict[int, Site] = field(default_factory=dict)
    tally: Tally | None = None
    ahead: Ahead = field(default_factory=Ahead)
    may_raise: list[VariableTracker] = field(default_factory=list)
    handled: list[Site] = field(default_factory=list)
    objects: list[VariableTracker] = field(default_factory=list)
    whole: list[Site] = field(default_factory=list)
    proven: bool = False
    reads: Reads = field(default_factory=Reads)
    hoisted: list[tuple[Site, Any]] = field(default_factory=list)
    captured: dict[Site, None] = field(default_factory=dict)
    symbols: dict[sympy.Basic, Site] = field(default_factory=dict)
    counts: bool = False
    catches: bool = False
    draws: list[Site] = field(default_factory=list)
    drawing: Draws | None = None
    formatted: list[VariableTracker] = field(default_factory=list)
    kept_texts: list[VariableTracker] = field(default_factory=list)
    texts_of_objects: bool = False
    texts_folded: bool = False
    asserts: set[tuple[CodeType, int]] = field(default_factory=set)
    stock_asserts: bool = False
    handles: bool = False
    leaves_more: bool = False
    absent: dict[tuple[str, str, str], Guard] = field(default_factory=dict)
    searched: set[tuple[type, str]] = field(default_factory=set)
    classes: dict[type, Source] = field(default_factory=dict)
    ordered: set[Source] = field(default_factory=set)
    builtins: dict[tuple[int, str], dict[str, Any]] = field(default_factory=dict)
    features: Features = field(default_factory=Features)
    recorder: Recorder | None = None

    def listen(self, output: OutputGraph) -> Recorder:
        """The recorder on the trace's fake tensor mode, started when first needed."""
        if self.recorder is None:
            # Dynamo runs a node's operators when it has made the node.
            self.recorder = Recorder(
                output.fake_mode, lambda: next(iter(reversed(output.graph.nodes)), None)
            )
        return self.recorder

    def note_absent(self, where: Source, what: str, make: Any, **kwargs: Any) -> None:
        """Keep a guard for the case that the frame is mended.

        Args:
            where: what it looks at.
            what: tells it from others of its kind.
            make: a function of Dynamo's `GuardBuilder`; `kwargs` are for it.
        """
        guard = where.make_guard(partial(make, **kwargs) if kwargs else make)
        self.absent.setdefault((where.name, make.__name__, what), guard)

    def our_outputs(self) -> list[VariableTracker]:
        """Outputs of the graph that the frame does not ask for."""
        return [*self.kept, *self.questions]

    def to_read(self) -> dict[int, str]:
        """Outputs to read on the host, by position; the question joins the others' transfer."""
        question = {-1: "item"} if self.reads.methods and self.questions else {}
        return {**self.reads.methods, **question}

    def close(self) -> None:
        """Stop listening."""
        if self.recorder is not None:
            self.recorder.detach()
            self.recorder = None


@dataclass(slots=True)
class Compilation:
    """One call of Dynamo's `compile_frame` under us.

    Attributes:
        code: the frame's own.
        code_for: gives the code object to trace in place of one.
        trace: the attempt that is running.
        may_mend: False if nothing is to be rewritten.
        rewrites: whether something is; it may be known only when its code is met.
        draw_missed: told that a call before a graph gave what the graph is not made for.
        declined: sites that must not be mended; a resume function may hold them already rewritten.
        likely: the value to guess at a site, by how often the trace came by it before, what is seen
            in this call where nothing is known from others, and what the bytecode suggests.
        follows: whether the frame goes on where a graph with a mend broke, or is a part of the
            user's function that Python calls there.
        was_mended: whether the function had a mend before.
        missed: told by a compiled graph that a guess was wrong, by its index; None if it raised.
        captures: whether Dynamo makes symbols of what is known only at run time.
        note_capture: told of each instruction at which it does; gives the user's site.
        site_at: the user's site for an instruction of a code object that is traced.
        given_up: sites that were mended and are not any more, and why.
        handlers: what rules make of the primitives that they mark, by the rules' names.
        draws: whether what NumPy draws is drawn before the graph.
        exact_asserts: whether an `assert` on a tensor is the branch that it is; Dynamo makes an
            operator of it that raises another exception.
        exact_texts: whether the code that makes the text of an object is traced.
        graphs: how many graphs were handed to the backend.
    """

    code: CodeType
    code_for: Callable[[CodeType], CodeType]
    may_mend: bool
    likely: Callable[[Site, int, Callable[[], bool | None], bool], bool]
    missed: Callable[[Tally, int | None], None]
    draw_missed: Callable[[Site], None]
    site_at: Callable[[CodeType, int], Site]
    follows: bool = False
    was_mended: bool = False
    declined: Container[Site] = ()
    rewrites: Callable[[], bool] = bool
    captures: bool = False
    note_capture: Callable[[CodeType, int], Site] | None = None
    given_up: Mapping[Site, Refused] = field(default_factory=dict)
    handlers: Mapping[str, Callable[..., VariableTracker]] = field(default_factory=dict)
    draws: bool = False
    exact_asserts: bool = True
    exact_texts: bool = False
    trace: Trace = field(default_factory=Trace)
    graphs: int = 0

    @property
    def takes_part(self) -> bool:
        """Whether the graph may be another one than without us; resume functions hold our code."""
        return self.rewrites() or bool(self.trace.used) or self.follows

    @property
    def is_mended(self) -> bool:
        """Whether stock might have broken the graph of the frame, now or in an earlier call."""
        known = (self.trace.used, self.trace.captured, self.trace.draws)
        return any(known) or self.follows or self.was_mended

    def mends(self, site: Site) -> bool:
        """False for a site that is to be traced as stock Dynamo does."""
        return self.may_mend and site not in self.declined

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
