"""Run a deferred effect as if it stood where the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from graphmend_bc.runtime.deferral.call_places import CallPlace, call_at, callers
from graphmend_bc.runtime.told_once import told_once


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """A call that was deferred.

    Code that looks for its caller (logging, warnings) finds frames with the file, line, function
    name and module of the call and of the functions around it.

    Attributes:
        places: the call and the calls around it that were inlined, innermost first.
        depth: how many frames the call may look at.
        in_users_frame: whether the compiled frame is the user's; some versions of Dynamo put one of
            their own around a function.
        handled: whether a handler of the program's would meet an exception that the call raises.
    """

    places: tuple[CallPlace, ...]
    depth: int = 1
    in_users_frame: bool = True
    handled: bool = False

    def run(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Call `function(*args, **kwargs)`.

        Args:
            function: what to call.
            args, kwargs: arguments as they were at the call.
        """
        call_at(self.frames(), function, args, kwargs)

    def frames(self) -> tuple[CallPlace, ...]:
        """The frames that the call may look at, innermost first; the compiled frame is running."""
        missing = self.depth - len(self.places)
        if missing <= 0:
            return self.places[: self.depth]
        try:
            return (*self.places, *callers(missing, below=int(self.in_users_frame)))
        except Exception as error:
            told_once("shows a deferred call without its callers", error)
            return self.places


def naming_lost_effects(graph: Callable[..., Any], sites: Sequence[object]) -> Callable[..., Any]:
    """The same graph; an exception it raises gets a note that lists the effects that will not run.

    Args:
        graph: the compiled graph.
        sites: the effects that run after it, in order; without any the graph itself is returned.
    """
    if not sites:
        return graph
    note = "\n".join(
        ["graphmend_bc had deferred these calls until after the graph; they did not run:"]
        + [f"  {site}" for site in sites]
    )

    @wraps(graph)
    def run_graph(*args: Any, **kwargs: Any) -> Any:
        try:
            return graph(*args, **kwargs)
        except Exception as error:
            error.add_note(note)
            raise

    return run_graph
