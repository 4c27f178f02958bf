"""Features keep their own state of an attempt, and the seams tell them what happens.

`trace.of(Kind)` is the attempt's state of a feature, made when the feature first has a part in the
attempt; `trace.known(Kind)` gives None before. At a seam the obligations below are called on each
state that has them, in the order of `order`: a feature without a part costs nothing, and neither
the trace nor a seam names one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch.fx import GraphModule, Node

if TYPE_CHECKING:
    from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
    from graphmend_bc.dynamo.trace.compilation import Compilation
    from graphmend_bc.runtime import Site


class RollbackNeed(IntEnum):
    """Whether a graph must be one that can be rolled back."""

    NOT_NEEDED = 0
    IF_FREE = 1
    """Something may make it useless; copies of inputs are worth while only if it may raise."""
    WORTH_COPIES = 2
    """Something may make it useless in any call."""


class Feature:
    """What one feature keeps of an attempt. Its obligations do nothing unless it has them.

    Attributes:
        order: features with a lower one are told first. Where two refuse the same thing, it says
            whose reason counts; at the end of a graph, what is added must come before what counts
            it.
        stays: whether what it holds stays true if operators of the graph are taken back.
    """

    __slots__ = ()

    order: ClassVar[int] = 50
    stays: ClassVar[bool] = False

    # While the frame is traced

    def on_question(self, compilation: Compilation, tensor: VariableTracker, name: str) -> None:
        """A tensor is asked for an attribute or a method.

        Raises:
            SiteRefused: the answer could differ from eager's.
        """

    def on_object_question(
        self, compilation: Compilation, owner: VariableTracker, name: str
    ) -> None:
        """An object of the user's is asked for an attribute; otherwise as `on_question`."""

    def on_module_question(self, module: object, name: str) -> None:
        """A Python module is asked for an attribute; otherwise as `on_question`."""

    def give_up_numbers(self, detail: str) -> None:
        """Numbers that were computed before the graph, or in it, may have made tracing raise.

        Raises:
            SiteRefused: there are such numbers.
        """

    def before_effect(self, tx: InstructionTranslatorBase) -> None:
        """A call is about to be deferred until after the graph.

        Args:
            tx: translator of the frame that makes the call.

        Raises:
            SiteRefused: the attempt cannot be used.
        """

    def on_break(self) -> None:
        """Dynamo is about to make a graph break, if no plan is changed for it.

        Raises:
            Exception: the attempt ends whatever becomes of the break.
        """

    # When its graph ends

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """The graph is about to be compiled; nodes, guards and deferred calls may be added.

        Args:
            compilation: what is being compiled.
            tx: translator of the frame in which it ends.
            is_break: whether the frame goes on after it.

        Raises:
            SiteRefused: it must not end here.
        """

    def on_outputs(
        self, tx: InstructionTranslatorBase, outputs: Sequence[VariableTracker]
    ) -> Sequence[VariableTracker]:
        """What the graph gives instead of what the frame asks for, in the same order."""
        return outputs

    def on_graph(self, compilation: Compilation, gm: GraphModule, output: OutputGraph) -> None:
        """The whole graph is known, but not whether it can be rolled back.

        Raises:
            SiteRefused: it could be told from eager's.
        """

    def while_compiled(self) -> AbstractContextManager[None]:
        """What is so while the backend compiles the graph."""
        return nullcontext()

    def rolls_back(self) -> RollbackNeed:
        """Whether something may come to light that makes the graph useless."""
        return RollbackNeed.NOT_NEEDED

    def blamed(self) -> Iterable[Site]:
        """Sites to give up if the graph cannot be rolled back."""
        return ()

    def on_roll_back(self, compilation: Compilation, undo: StateSnapshot | None) -> None:
        """It is known how the graph is rolled back; None if it cannot be or need not.

        Raises:
            SiteRefused: that is not enough.
        """

    def on_proof(self, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
        """The graph was shown to be exact; what nobody needs may be dropped.

        Args:
            gm: the graph.
            written: storages that were changed in place, in the order of the writes.
            opaque: higher-order operators of the user's.
        """

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        """What runs in the compiled graph's place; what rolls it back is around that.

        It outlives the attempt, so it must hold no state: a state holds Dynamo's variables.
        """
        return graph

    def guarded(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """As `wrapped`, around what rolls the graph back: it may raise `Deoptimise` instead."""
        return graph

    # When the attempt is accepted

    def mended(self) -> Mapping[Site, str]:
        """Sites that are mended without being noted in `trace.used`, with the strategy."""
        return {}

    def corrects(self) -> bool:
        """Whether stock would have broken the graph, or raised, at something that is no site."""
        return False

    def on_commit(self, compilation: Compilation) -> bool:
        """True if calls of the frame may have to run its original code."""
        return False

    def before_guards(self) -> Callable[[], None]:
        """The frame is compiled and about to be called; its guards are made after this.

        Returns:
            What takes back what was done, if the frame runs without what is compiled.
        """
        return lambda: None

    def roll_back(self) -> Callable[[], None] | None:
        """To be called before the original code runs, if there is anything to roll back."""
        return None


F = TypeVar("F", bound=Feature)


@cache
def _obligations(kind: type[Feature]) -> tuple[str, ...]:
    """The obligations that a class of states has."""
    return tuple(
        name
        for name, nothing in vars(Feature).items()
        if not name.startswith("_") and callable(nothing) and getattr(kind, name) is not nothing
    )


class Features:
    """The states of one attempt. A seam that none of them has an obligation at looks it up once."""

    __slots__ = ("_obliged", "_states")

    def __init__(self) -> None:
        self._states: dict[type[Feature], Any] = {}
        self._obliged: dict[str, tuple[Feature, ...]] = {}

    def of(self, kind: type[F]) -> F:
        """A feature's state, made if there is none yet."""
        found = self._states.get(kind)
        if found is None:
            found = self._states[kind] = kind()
            for name in _obligations(cast("Hashable", kind)):
                known: list[Feature] = [*self._obliged.get(name, ()), found]
                self._obliged[name] = tuple(sorted(known, key=lambda feature: feature.order))
        return found

    def known(self, kind: type[F]) -> F | None:
        """A feature's state, if it has a part in the attempt."""
        return self._states.get(kind)

    def obliged(self, obligation: Callable[..., Any]) -> Sequence[Feature]:
        """The states that do something about an obligation, in their order.

        Args:
            obligation: a method of `Feature`.
        """
        return self._obliged.get(obligation.__name__, ())

    def all_obliged(self, obligation: Callable[..., Any]) -> Iterator[Feature]:
        """As `obliged`; those too that are made while the others are told."""
        told: set[Feature] = set()
        while left := [f for f in self.obliged(obligation) if f not in told]:
            told.add(left[0])
            yield left[0]

    def all(self) -> Iterable[Feature]:
        """The states that were made."""
        return self._states.values()
