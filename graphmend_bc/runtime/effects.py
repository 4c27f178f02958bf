"""Run a deferred effect as if it stood where the user wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from types import CodeType, FunctionType
from typing import Any

from graphmend_bc.runtime.site import Site


def run(
    site: Site,
    module_globals: dict[str, Any],
    function: Callable[..., Any],
    predicates: tuple[tuple[Any, bool], ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Call `function(*args, **kwargs)` if all branches around it were taken.

    Code that looks for its caller (logging, warnings) finds a frame with the site's file, line,
    function name and module.

    Args:
        site: where the call stands.
        module_globals: globals of the function it stands in.
        function: what to call.
        predicates: truth values of the branches around the call, outermost first, each with the
        value
            under which the call's arm is taken.
        args, kwargs: arguments as they were at the call.
    """
    if all(bool(value) is taken for value, taken in predicates):
        FunctionType(_frame_code(site), module_globals, site.name)(function, args, kwargs)


@lru_cache(maxsize=1024)
def _frame_code(site: Site) -> CodeType:
    """A call of its first argument, in a code object that says it is at `site`."""
    shim = lambda function, args, kwargs: function(*args, **kwargs)  # noqa: E731
    return shim.__code__.replace(
        co_filename=site.filename,
        co_name=site.name,
        co_qualname=site.qualname,
        co_firstlineno=site.lineno,
    )


def naming_lost_effects(graph: Callable[..., Any], sites: Sequence[Site]) -> Callable[..., Any]:
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
