"""Run a deferred effect as if it stood where the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from types import FunctionType
from typing import Any

from graphmend_bc.runtime.deferral.call_places import CallPlace, callers, shim_at
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
    _shims: tuple[FunctionType, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Make the frames that are known, before anything runs."""
        object.__setattr__(self, "_shims", tuple(map(shim_at, self.places[: self.depth])))

    def __reduce__(self) -> tuple[Any, ...]:
        """What is saved with code that is compiled ahead of time."""
        return Effect, (self.places, self.depth, self.in_users_frame, self.handled)

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
        shims = self._shims
        if len(shims) < self.depth:
            try:
                shims = (*shims, *map(shim_at, self._callers()))
            except Exception as error:
                told_once("shows a deferred call without its callers", error)
        for shim in shims:
            function, args, kwargs = shim, (function, args, kwargs), {}
        function(*args, **kwargs)

    def frames(self) -> tuple[CallPlace, ...]:
        """The frames that the call may look at, innermost first; the compiled frame is running."""
        known = self.places[: self.depth]
        return known if len(known) == self.depth else (*known, *self._callers())

    def _callers(self) -> list[CallPlace]:
        """Those that the compiled frame was called from."""
        return callers(self.depth - len(self.places), below=int(self.in_users_frame))


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
