"""What the mending loop needs to know about `compile_frame`: its arguments, errors and results."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, cast

import torch._dynamo
from torch._dynamo import eval_frame, exc
from torch._dynamo.utils import _get_error_on_graph_break
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from graphmend_bc.dynamo import facts

log = logging.getLogger("graphmend_bc")

_POSITIONS = {"globals": 0, "locals": 1, "compiler_fn": 4, "one_graph": 5}
"""Positions among the arguments that follow `code`; some callers pass them by name."""


@dataclass(frozen=True, slots=True)
class AttemptArguments:
    """The arguments of one `compile_frame` call after `code`.

    Attributes:
        args: positional arguments: globals, locals, builtins, closure, compiler_fn, one_graph, ...
        kwargs: keyword arguments.
    """

    args: list[Any]
    kwargs: dict[str, Any]

    @property
    def module_globals(self) -> dict[str, Any]:
        """Globals of the frame."""
        return cast(dict[str, Any], self._get("globals"))

    @property
    def locals(self) -> dict[str, Any]:
        """Locals of the frame, as it begins."""
        return cast(dict[str, Any], self._get("locals"))

    @property
    def compiler_fn(self) -> Any:
        """The backend, as Dynamo wraps it."""
        return self._get("compiler_fn")

    @property
    def exports(self) -> bool:
        """Whether the frame is exported."""
        return bool(self.kwargs.get("export"))

    @property
    def wants_errors(self) -> bool:
        """Whether a graph break is an error to the caller: `fullgraph=True`, export."""
        return bool(self._get("one_graph")) or bool(_get_error_on_graph_break())

    @property
    def with_breaks(self) -> AttemptArguments:
        """The same arguments, but for one graph only if the frame is exported.

        One graph also makes symbols of what is known only at run time, whether or not that is
        exact; `breaks_are_errors` does not.
        """
        if self.exports:
            return self
        if "one_graph" in self.kwargs:
            return replace(self, kwargs={**self.kwargs, "one_graph": False})
        position = _POSITIONS["one_graph"]
        return replace(self, args=[*self.args[:position], False, *self.args[position + 1 :]])

    def _get(self, name: str) -> Any:
        return self.kwargs[name] if name in self.kwargs else self.args[_POSITIONS[name]]


def breaks_are_errors() -> AbstractContextManager[Any]:
    """A block in which a graph break is an exception.

    Not the same as asking for one graph: that also captures values whose size or value is known
    only at run time, which is not exact where a size turns out to be 0 or 1.
    """
    return torch._dynamo.error_on_graph_break(True)


def capturing(on: bool) -> AbstractContextManager[Any]:
    """A block in which sizes and numbers known only at run time become symbols of the graph."""
    return _capturing() if on else nullcontext()


@contextmanager
def _capturing() -> Iterator[None]:
    options: Any = torch._dynamo.config
    with options.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        _FAKE_TENSORS.addFilter(_is_told)
        try:
            yield
        finally:
            _FAKE_TENSORS.removeFilter(_is_told)


_FAKE_TENSORS = logging.getLogger("torch._subclasses.fake_tensor")


def _is_told(record: logging.LogRecord) -> bool:
    """False for an operator that needs a size that is not known: another attempt follows."""
    return not str(record.msg).startswith("failed while attempting to run meta")


def guarding_defaults() -> AbstractContextManager[Any]:
    """A block in which compiled code is guarded on the defaults of functions that it calls."""
    if not facts.SKIPS_DEFAULTS:
        return nullcontext()
    settings: Any = torch._dynamo.config
    block: AbstractContextManager[Any] = settings.patch(skip_guards_on_constant_func_defaults=False)
    return block


def restore_error_setting(result: Any) -> None:
    """Let a result say what the caller wants of graph breaks, not what its attempt wanted."""
    result.tracer_output.error_on_graph_break = _get_error_on_graph_break()


def recompile_limit() -> int:
    """How many versions of a frame Dynamo compiles before it runs the frame eagerly for good."""
    return int(torch._dynamo.config.recompile_limit)


def allows_versions(count: int) -> bool:
    """True if a frame may be compiled in so many versions: no error, and within Dynamo's limit."""
    return count <= recompile_limit() and not torch._dynamo.config.error_on_recompile


def may_compile() -> bool:
    """False if the stance makes a frame an error that has no compiled version that fits."""
    stance = eval_frame._stance
    return stance.stance != "fail_on_recompile" and not stance.skip_guard_eval_unsafe


def keeps_compiled() -> bool:
    """True if what is compiled must stay as it is, whatever a graph turns out to rest on.

    A failed check then runs the original code and changes nothing.
    """
    settings = torch._dynamo.config
    return bool(
        not may_compile()
        or eval_frame._stance.stance == "eager_on_recompile"
        or settings.error_on_recompile
        or settings.fail_on_recompile_limit_hit
    )


def is_break(error: BaseException) -> bool:
    """True for the exceptions by which Dynamo stops tracing at something it cannot trace."""
    return isinstance(error, (exc.Unsupported, exc.UserError))


def asks_symbol(error: BaseException) -> bool:
    """True if tracing stopped at a question about a size or number known only at run time."""
    return any(isinstance(each, GuardOnDataDependentSymNode) for each in (error, error.__context__))


def is_failure(error: BaseException) -> bool:
    """True for exceptions by which tracing fails, rather than stops or skips the frame."""
    return not is_break(error) and not is_skip(error)


def is_skip(error: BaseException) -> bool:
    """True if Dynamo skips the frame: there is nothing in it to compile."""
    return isinstance(error, exc.SkipFrame)


def is_dynamos(error: BaseException) -> bool:
    """True for Dynamo's own exceptions, such as an operator that rejects its arguments."""
    return isinstance(error, exc.TorchDynamoException)


def clean_up(error: BaseException) -> None:
    """Let go of a failed attempt, as Dynamo does when it restarts an analysis."""
    if isinstance(error, exc.Unsupported) and error.category is not None:
        error.remove_from_stats()
    output = getattr(error, "_torch_dynamo_tracer_output", None)
    if output is not None:
        try:
            output._cleanup_output_graph()
        except RuntimeError as again:  # a node has users in the graph of another tracer
            log.debug("Dynamo could not clear the graph of a failed attempt: %s", again)


def is_empty(result: Any) -> bool:
    """True if the trace found nothing to compute."""
    return bool(result.tracer_output.output_graph.count_calls() == 0)


def break_place(result: Any) -> tuple[str, int] | None:
    """The file and line of the break that ends a frame's graph; None if Dynamo names none."""
    reason = result.tracer_output.output_graph.compile_subgraph_reason
    stack = reason.user_stack if reason is not None and reason.graph_break else []
    return (stack[-1].filename, stack[-1].lineno or 0) if stack else None


def break_reason(outcome: Any) -> str:
    """Why a frame's graph ended before the frame did, in Dynamo's words; empty if it did not."""
    if isinstance(outcome, exc.SkipFrame):
        return ""
    if isinstance(outcome, BaseException):
        return str(outcome)
    reason = outcome.tracer_output.output_graph.compile_subgraph_reason
    return str(reason.reason) if reason is not None and reason.graph_break else ""
