"""What one attempt at tracing keeps for a way to mend, and what it asks of that way in return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from torch._dynamo.symbolic_convert import InstructionTranslatorBase


class Feature:
    """The state of one way to mend in one attempt; made when the attempt first asks for it.

    A method here does nothing; a subclass overrides those at which it has something to do.
    """

    def before_effect(self, tx: InstructionTranslatorBase) -> None:
        """A call is about to be put off until after the graph.

        Args:
            tx: translator of the frame that makes the call.

        Raises:
            SiteRefused: the attempt cannot be used.
        """

    def on_graph_end(self, tx: InstructionTranslatorBase, is_break: bool) -> None:
        """The graph ends.

        Args:
            tx: translator of the frame in which it ends.
            is_break: whether the frame goes on after the graph.

        Raises:
            SiteRefused: the attempt cannot be used.
        """

    def around_graph(self, graph: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in place of the compiled graph."""
        return graph


F = TypeVar("F", bound=Feature)


class Features:
    """The features that one attempt asked for, in that order."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Feature], Feature] = {}

    def __iter__(self) -> Iterator[Feature]:
        return iter(tuple(self._by_kind.values()))

    def of(self, kind: type[F]) -> F:
        """The attempt's feature of a class, which is made if there is none yet."""
        feature = self.get(kind)
        if feature is None:
            feature = self._by_kind[kind] = kind()
        return feature

    def get(self, kind: type[F]) -> F | None:
        """The attempt's feature of a class, if it has one."""
        feature = self._by_kind.get(kind)
        return feature if isinstance(feature, kind) else None
