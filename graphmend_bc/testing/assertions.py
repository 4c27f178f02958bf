"""`assert_exact` and `assert_no_breaks`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import torch

from graphmend_bc import session
from graphmend_bc.explanation import Explanation, explain
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.references import as_text
from graphmend_bc.reporting.report import Report
from graphmend_bc.testing.observation import Call, Observed, observed, state_of

_LONGEST = 600
"""Characters of a value that a message shows."""


def assert_no_breaks(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Explanation:
    """Assert that a call is one graph under mending, without a break or a skipped frame.

    Args:
        function: a function or module. It is not compiled yet.
        args, kwargs: the arguments of the call; it is made twice, with clones of the tensors.

    Returns:
        The comparison with stock `torch.compile`.

    Raises:
        AssertionError: a break is left. The message says where, why, and what to do.

    Example:
        >>> import torch
        >>> def scale(x):
        ...     return x * 2 if x.sum() > 0 else x - 1
        >>> assert_no_breaks(scale, torch.ones(2)).after.graph_count
        1
    """
    __tracebackhide__ = True  # pytest shows the test, and not this
    found = explain(function)(*args, **kwargs)
    after = found.after
    if not (after.graph_break_count or after.skipped_frames or after.break_reasons):
        return found
    reasons = as_text(*found.declines) or list(after.break_reasons)
    raise AssertionError(
        f"{_name(function)} is not one graph without breaks: {many(after.graph_count, 'graph')}, "
        f"{many(after.graph_break_count, 'break')}, "
        f"{many(after.skipped_frames, 'skipped frame')}.\n" + "\n".join(reasons)
    )


def assert_exact(
    function: Callable[..., Any],
    *calls: Any,
    grad: bool = False,
    state: Callable[[], Any] | None = None,
    setup: Callable[[], None] | None = None,
    **compile_kwargs: Any,
) -> Report:
    """Assert that calls under mending do all that eager Python does.

    Compared are results, arguments, state, gradients, memory and identity of tensors, standard
    output, log records, warnings, exceptions, random numbers and modes.

    Args:
        function: a function or module that is not compiled yet. A module is copied for each run.
        calls: the arguments of each call: a tuple, a dict of keyword arguments, or a single
            argument. Give more than one, and arguments that take different ways.
        grad: whether a backward pass from the results follows each call.
        state: gives what a function changes besides its arguments, such as a list it appends to.
        setup: called before each of the two runs; it makes that state as it is at the beginning.
        compile_kwargs: for `torch.compile`; the backend is "eager" unless given, which computes
            with the same kernels as eager Python.

    Returns:
        What was mended and declined.

    Raises:
        AssertionError: something differs. The message names the call, what it is, and both values.
        ValueError: there are no calls.

    Example:
        >>> import torch
        >>> def scale(x):
        ...     return x * 2 if x.sum() > 0 else x - 1
        >>> report = assert_exact(scale, torch.ones(2), -torch.ones(2))
        >>> [mend.strategy for mend in report.mends]
        ['where']
    """
    __tracebackhide__ = True
    if not calls:
        raise ValueError("assert_exact(function, *calls) compares calls, and none is given.")
    made = [_as_call(call) for call in calls]
    eager = _run(function, made, grad, state, setup, lambda called: called)
    kwargs = {"backend": "eager", **compile_kwargs}
    before = session.new_state(mends=True)
    with session.mending_by(before):
        torch.compiler.reset()
        compiled = _run(
            function, made, grad, state, setup, lambda called: torch.compile(called, **kwargs)
        )
        report = before.report_now()
        session.tell(report)
        torch.compiler.reset()
    for number, (want, got) in enumerate(zip(eager, compiled, strict=True), 1):
        _assert_same(_name(function), number, want, got, report)
    return report


def _as_call(call: Any) -> Call:
    if isinstance(call, dict):
        return (), call
    return (call, {}) if isinstance(call, tuple) else ((call,), {})


def _run(
    function: Callable[..., Any],
    calls: list[Call],
    grad: bool,
    state: Callable[[], Any] | None,
    setup: Callable[[], None] | None,
    wrap: Callable[..., Any],
) -> list[Observed]:
    if setup is not None:
        setup()
    own = state or list
    if not isinstance(function, torch.nn.Module):
        return observed(wrap(function), calls, own, grad=grad)
    module = copy.deepcopy(function)
    return observed(wrap(module), calls, lambda: [state_of(module), own()], grad=grad)


def _assert_same(name: str, number: int, want: Observed, got: Observed, report: Report) -> None:
    __tracebackhide__ = True
    for known in fields(Observed):
        eager, compiled = getattr(want, known.name), getattr(got, known.name)
        if eager != compiled:
            what = known.name.replace("_", " ")
            raise AssertionError(
                f"Call {number} of {name} is not eager Python's: {what} differ.\n"
                f"eager:    {_short(eager)}\ncompiled: {_short(compiled)}\n{report}"
            )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
