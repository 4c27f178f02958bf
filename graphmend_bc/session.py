"""Switching mending on and off, and asking what it did."""

from __future__ import annotations

import logging
import os
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, overload

from graphmend_bc import config
from graphmend_bc.attachment.attach import Attachment, attach_all
from graphmend_bc.canary import check as canary
from graphmend_bc.contrib.load import load as load_contrib
from graphmend_bc.dynamo.patches.installer import Installer
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.engine.frame_compiler import compile_frame
from graphmend_bc.engine.outcomes.failures import report_error
from graphmend_bc.engine.state import MendingState
from graphmend_bc.registration import Registry
from graphmend_bc.reporting.report import Report
from graphmend_bc.rewriting import rewrite as rewrite_code
from graphmend_bc.rewriting import widest_plan
from graphmend_bc.runtime import identity_of
from graphmend_bc.setting_checks import ON_ERROR, OnError, Switch, check_environment, checked
from graphmend_bc.versions import (
    UnsupportedVersionError,
    check_versions,
    is_known_torch,
    tell_of_torch,
    told_once,
)

log = logging.getLogger("graphmend_bc")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class _Session:
    """The one mending state of the process and its seams; Dynamo's hooks are process-wide too."""

    state: MendingState = field(default_factory=lambda: MendingState(decisions=DecisionCache()))
    seams: Installer | None = None
    handle: Handle | None = None
    attached: list[Attachment] = field(default_factory=list)
    refused: str = ""
    watchers: Registry[Callable[[Report], object]] = field(default_factory=Registry)


class Handle:
    """What `enable()` returns.

    Example:
        >>> import graphmend_bc
        >>> handle = graphmend_bc.enable()
        >>> handle.remove()
        >>> graphmend_bc.is_enabled()
        False
    """

    def remove(self) -> None:
        """Switch mending off, unless it was switched off or on anew since."""
        if _session.handle is self:
            disable()


_session = _Session()


def enable(*, cache: bool = True, on_error: OnError = "raise") -> Handle:
    """Mend graph breaks in everything that torch.compile compiles from now on.

    The targets in `graphmend_bc.config.attach` are attached until `disable()`. With
    `GRAPHMEND_BC=0` in the environment, or `graphmend_bc.config.enabled = False`, nothing is
    switched on, and one INFO record says so.

    Args:
        cache: True to remember for a code object what worked, so that a recompilation need not
            find it again. With `config.disk_cache` another process need not either.
        on_error: "warn" to leave the program as it is where this Python or torch is refused. One
            warning says why, and so does `report().refused`.

    Returns:
        A handle; `handle.remove()` switches mending off. If mending is on already, the handle it
        has. If it was not switched on, one that does nothing.

    Raises:
        UnsupportedVersionError: this Python is not known, this torch is too old, or it lacks what
            every mend rests on (`MissingSeamError`). Not with `on_error="warn"`.
        ValueError: `cache` is no bool, `on_error` neither "raise" nor "warn", or an environment
            variable has no valid value.
        ImportError, TypeError, ValueError: as `attach()`, for a target in the config, or a rule was
            registered under the name of one in `graphmend_bc/contrib/`. Whatever is raised, nothing
            is switched on or attached.

    Example:
        >>> import graphmend_bc, torch
        >>> handle = graphmend_bc.enable()
        >>> @torch.compile(backend="eager", fullgraph=True)
        ... def scale(x):
        ...     if x.sum() > 0:
        ...         return x * 2
        ...     return x - 1
        >>> scale(torch.ones(2))
        tensor([2., 2.])
        >>> graphmend_bc.report().mends[0].strategy
        'where'
        >>> handle.remove()
    """
    remember = checked(Switch(), "The argument cache of enable()", cache)
    on_error = checked(ON_ERROR, "The argument on_error of enable()", on_error)
    if by := switched_off_by():
        log.info("%s: graphmend_bc.enable() does nothing.", by)
        return Handle()
    try:
        check_versions()
        if _session.handle is None:
            _switch_on()
    except UnsupportedVersionError as error:
        if on_error == "raise":
            raise
        _session.refused = told_once(error)
        return Handle()
    _session.refused = ""
    _session.state.remember = remember
    assert _session.handle is not None
    return _session.handle


def _switch_on() -> None:
    """Attach and install all that `enable()` does, or nothing."""
    check_environment()
    attached = attach_all(config.attach)
    try:
        seams = _seams(_session.state)
        seams.install()
        tell_of_torch(_session.state.lost)
    except BaseException:
        for attachment in reversed(attached):
            attachment.remove()
        raise
    _session.state.forget()
    _session.attached, _session.seams, _session.handle = attached, seams, Handle()


def disable() -> None:
    """Compile as stock torch.compile does from now on. What was compiled stays compiled.

    Returns:
        None. Where mending is off already, nothing happens.

    Example:
        >>> import graphmend_bc
        >>> _ = graphmend_bc.enable()
        >>> graphmend_bc.disable()
        >>> graphmend_bc.is_enabled()
        False
    """
    if _session.seams is not None:
        _session.seams.remove()
    while _session.attached:
        _session.attached.pop().remove()
    _session.seams = _session.handle = None


def switched_off_by() -> str:
    """What lets nothing be mended, as the user wrote it; empty if nothing does."""
    if config.enabled:
        return ""
    by_environment = os.environ.get("GRAPHMEND_BC") == "0"
    return "GRAPHMEND_BC=0" if by_environment else "graphmend_bc.config.enabled is False"


def is_enabled() -> bool:
    """Ask whether mending is on.

    Returns:
        True between `enable()` and `disable()`, if `enable()` did anything.

    Example:
        >>> import graphmend_bc
        >>> with graphmend_bc.enabled():
        ...     graphmend_bc.is_enabled()
        True
    """
    return _session.handle is not None


@contextmanager
def enabled(*, cache: bool = True, on_error: OnError = "raise") -> Iterator[Handle]:
    """`enable()` for a `with` block or a decorated function; afterwards it is as it was before.

    Args:
        cache, on_error: as for `enable`.

    Yields:
        The handle that `enable()` returns.

    Raises:
        UnsupportedVersionError, ImportError, TypeError, ValueError: as `enable()`.

    Example:
        >>> import graphmend_bc, torch
        >>> compiled = torch.compile(lambda x: x + 1, backend="eager")
        >>> with graphmend_bc.enabled():
        ...     compiled(torch.zeros(2))
        tensor([1., 1.])
    """
    before, remember = is_enabled(), _session.state.remember
    handle = enable(cache=cache, on_error=on_error)
    try:
        yield handle
    finally:
        _session.state.remember = remember
        if not before:
            handle.remove()


def report() -> Report:
    """What was mended and declined since `enable()` or `reset()`.

    Returns:
        A copy; it does not change any more.

    Example:
        >>> import graphmend_bc
        >>> graphmend_bc.reset()
        >>> print(graphmend_bc.report())
        0 mended, 0 declined
    """
    found = _session.state.report_now()
    found.refused = _session.refused
    return found


def reset() -> None:
    """Forget what was mended and declined. `torch._dynamo.reset()` does this too.

    Returns:
        None. What was compiled stays compiled.

    Example:
        >>> import graphmend_bc
        >>> graphmend_bc.reset()
        >>> graphmend_bc.report().mends
        []
    """
    _session.state.forget()


def new_state(*, mends: bool) -> MendingState:
    """A mending state that shares the session's rewrites and marks, with a report of its own.

    It finds everything out by itself: what is kept on disk is the session's alone.
    """
    state = _session.state
    mends = mends and config.enabled
    return MendingState(rewrites=state.rewrites, left_alone=state.left_alone, mends=mends)


def _seams(state: MendingState) -> Installer:
    load_contrib()
    bypassed = {} if is_known_torch() else canary.bypassed()
    return Installer(state, partial(compile_frame, state), partial(report_error, state), bypassed)


@contextmanager
def mending_by(state: MendingState) -> Iterator[None]:
    """Let `state` take the session's place for a while."""
    outer, seams = _session.seams, _seams(state)
    if outer is not None:
        outer.remove()
    try:
        seams.install()
        yield
    finally:
        seams.remove()
        # Not if mending was switched off or on anew meanwhile.
        if outer is not None and _session.seams is outer:
            _install_again(outer)


@contextmanager
def watching(listener: Callable[[Report], object]) -> Iterator[None]:
    """Be told the report of each `explain()` and each assertion of `graphmend_bc.testing`."""
    registered = _session.watchers.add(listener)
    try:
        yield
    finally:
        registered.remove()


def tell(report: Report) -> None:
    """Tell who is watching what was found by a state that took the session's place."""
    for listener in _session.watchers:
        listener(report)


def _install_again(seams: Installer) -> None:
    try:
        seams.install()
    except BaseException:
        disable()
        raise


@overload
def leave_alone(function: F, *, reason: str = ...) -> F: ...
@overload
def leave_alone(function: None = None, *, reason: str = ...) -> Callable[[F], F]: ...
def leave_alone(function: F | None = None, *, reason: str = "") -> F | Callable[[F], F]:
    """Mark a function: its bytecode is never rewritten.

    Args:
        function: the function; without it a decorator is returned.
        reason: for the reader of the code.

    Returns:
        The same function.

    Raises:
        TypeError: the object has no Python code.

    Example:
        >>> import graphmend_bc
        >>> @graphmend_bc.leave_alone(reason="timing matters here")
        ... def step(x):
        ...     return x + 1
        >>> step(1)
        2
    """
    if function is None:
        return lambda f: leave_alone(f, reason=reason)
    _session.state.left_alone.add(identity_of(_function_of(function).__code__))
    return function


def rewrite(
    function: Callable[..., Any], *, branches: bool = True, effects: bool = True
) -> Callable[..., Any]:
    """A function with rewritten code, for looking at and for testing; it needs no `enable()`.

    Every conditional jump that can be rewritten becomes a `Branch` call and every likely effect is
    marked. Called by Python, the new function does what the old one did.

    Args:
        function: a Python function; it is not changed.
        branches: rewrite branches.
        effects: mark print and logger calls.

    Returns:
        A new function with the same name, defaults, closure and globals.

    Raises:
        TypeError: `function` is a builtin, a class or another object without Python code.

    Example:
        >>> import graphmend_bc
        >>> def sign(x):
        ...     return "below" if x < 0 else "not below"
        >>> rewritten = graphmend_bc.rewrite(sign)
        >>> rewritten(-1), rewritten.__code__ is sign.__code__
        ('below', False)
    """
    source = _function_of(function)
    load_contrib()  # it knows more effects
    plan = widest_plan(source.__code__, branches=branches, effects=effects)
    code = rewrite_code(source.__code__, plan).code if plan else source.__code__
    new = types.FunctionType(
        code, source.__globals__, source.__name__, source.__defaults__, source.__closure__
    )
    new.__kwdefaults__ = source.__kwdefaults__
    new.__dict__.update(source.__dict__)
    new.__qualname__, new.__doc__, new.__module__ = (
        source.__qualname__,
        source.__doc__,
        source.__module__,
    )
    new.__annotations__ = source.__annotations__
    return new


def _function_of(function: object) -> types.FunctionType:
    inner = getattr(function, "__func__", function)
    if not isinstance(inner, types.FunctionType):
        raise TypeError(
            f"{function!r} has no Python bytecode: it is of type {type(function).__name__}. "
            "Pass a function written in Python; for a module or another callable object, pass the "
            "function behind it, such as type(model).forward."
        )
    return inner
