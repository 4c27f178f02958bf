"""Errors that are planted in functions of the library's: once, or in every call."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch
from torch._dynamo import convert_frame, utils

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.patches import containment
from graphmend_bc.dynamo.patches.installer import Installer
from graphmend_bc.dynamo.rollback import eager_fallback
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.verification import verifier
from graphmend_bc.engine import compile_time
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.engine.state import MendingState
from graphmend_bc.runtime import told_once
from graphmend_bc.testing.observation import Observed
from tests import oracle

KINDS = (RuntimeError, AttributeError, MemoryError, RecursionError)
PASSING = (KeyboardInterrupt, SystemExit, GeneratorExit)
OF_ERRORS = ("internal-error", "does-not-compile")
"""Reasons. The second is that of a RecursionError, which too many frames of ours would end in."""


@dataclass(slots=True)
class Fault:
    """An error, and how often it was raised.

    Attributes:
        kind: its class.
        always: False if it is raised once.
        raised: how often it was.
        in_guards: how often of that in a guard, where torch takes whatever is raised for a no.
    """

    kind: type[BaseException]
    always: bool
    raised: int = 0
    in_guards: int = 0

    def strike(self) -> None:
        """Raise it, if it is due."""
        if self.always or not self.raised:
            self.raised += 1
            self.in_guards += _is_in_guard()
            raise self.kind("planted")


_GUARDS = (
    *("Slice.in_lookup", "Slice.__call__", "guard_by.<locals>.make.<locals>.still_holds"),
    "guarding.<locals>.get_guard_manager_from_source.<locals>.<lambda>",
)


def _is_in_guard() -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_qualname not in _GUARDS:
        frame = frame.f_back
    return frame is not None


_SHIM = """
def outer():
    {cells} = None
    def shim(*args, **kwargs):
        strike = "STRIKE"
        return strike() or ({used})
"""


@contextmanager
def planted(function: FunctionType, fault: Fault) -> Iterator[None]:
    """A block in which a function raises in place of doing anything.

    Its code is replaced, so that it does so wherever it was imported to. The error comes from a frame
    of the library's, as one that the function had raised.
    """
    code = function.__code__

    def strike() -> None:
        if not fault.always:
            function.__code__ = code
        fault.strike()

    function.__code__ = _shim(code, strike)
    try:
        yield
    finally:
        function.__code__ = code


def _shim(code: CodeType, strike: Callable[[], None]) -> CodeType:
    cells = code.co_freevars
    source = _SHIM.format(cells=" = ".join(cells) or "none", used=", ".join(cells))
    scope: dict[str, Any] = {}
    exec(compile(source, code.co_filename, "exec"), scope)
    (outer,) = (c for c in scope["outer"].__code__.co_consts if isinstance(c, CodeType))
    consts = tuple(strike if const == "STRIKE" else const for const in outer.co_consts)
    return outer.replace(co_consts=consts, co_name=code.co_name, co_qualname=code.co_qualname)


def functions_in(*packages: str) -> dict[str, FunctionType]:
    """The functions and methods of some packages of the library, by module and qualified name."""
    found: dict[str, FunctionType] = {}
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(tuple(f"graphmend_bc.{package}" for package in packages)):
            continue
        owners = [module, *(value for value in vars(module).values() if isinstance(value, type))]
        for value in [value for owner in owners for value in list(vars(owner).values())]:
            function = _plain(value)
            if function is not None and function.__code__.co_filename.startswith(OURS):
                label = (
                    f"{function.__module__.removeprefix('graphmend_bc.')}:{function.__qualname__}"
                )
                found[label] = function
    return found


def _plain(value: Any) -> FunctionType | None:
    """The function behind a method, a property or a decorator."""
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if isinstance(value, property):
        value = value.fget
    if isinstance(value, functools.cached_property):
        value = value.func
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return value if isinstance(value, FunctionType) else None


@dataclass(frozen=True)
class Scenario:
    """A program and what is set around it.

    Attributes:
        name: of the scenario.
        source: of the program, as `tests.oracle` has it.
        calls: arguments of its calls.
        settings: of `graphmend_bc.config`; a function gives one for each run.
    """

    name: str
    source: str
    calls: Sequence[Any]
    settings: dict[str, Any] = field(default_factory=dict)

    def eager(self) -> list[Observed]:
        """What is seen of the calls in eager Python."""
        return oracle._run(self.source, self._calls(), False, lambda f: f)

    def of_stock(self) -> list[Observed]:
        """What is seen of them with stock torch.compile."""
        torch._dynamo.reset()
        return oracle._run(
            self.source, self._calls(), False, lambda f: torch.compile(f, backend="eager")
        )

    def mended(
        self,
        state: MendingState,
        before_call: Callable[[], object] = lambda: None,
        at_end: Callable[[], object] = lambda: None,
    ) -> list[Observed]:
        """What is seen of them under mending, which is on until `at_end` was called."""

        def wrap(f: Callable[..., Any]) -> Callable[..., Any]:
            return torch.compile(f, backend="eager")

        torch._dynamo.reset()
        settings = {n: value() if callable(value) else value for n, value in self.settings.items()}
        with gm.config.patch(**settings), session.mending_by(state):
            state.decisions = DecisionCache() if self.settings.get("disk_cache") else None
            try:
                return oracle._run(self.source, self._calls(), False, wrap, before_call)
            finally:
                at_end()

    def _calls(self) -> list[tuple[Any, ...]]:
        return [call if isinstance(call, tuple) else (call,) for call in self.calls]


@dataclass
class Reached:
    """Functions that are called, by their labels.

    Attributes:
        all: of them.
        in_calls: those that run while nothing is compiled: before a graph, around it or after it.
    """

    all: list[str]
    in_calls: list[str]


def reached(functions: dict[str, FunctionType], scenario: Scenario) -> Reached:
    """Those that are called in the calls of a scenario."""
    codes: tuple[set[CodeType], set[CodeType]] = set(), set()
    compiles, depth = convert_frame.CatchErrorsWrapper.__call__.__code__, 0

    def notice(frame: Any, event: str, arg: object) -> None:
        nonlocal depth
        if event == "call":
            codes[depth > 0].add(frame.f_code)
        if frame.f_code is compiles and event in ("call", "return"):
            depth += 1 if event == "call" else -1

    scenario.mended(
        session.new_state(mends=True),
        before_call=lambda: sys.setprofile(notice),
        at_end=lambda: sys.setprofile(None),
    )
    known = {label: function.__code__ for label, function in functions.items()}
    called = [label for label, code in known.items() if code in codes[0] | codes[1]]
    return Reached(called, [label for label in called if known[label] in codes[0]])


@dataclass
class Tried:
    """What came of a scenario with a fault in it.

    Attributes:
        seen: of its calls.
        warned: what the library logged as a warning.
        declined: how many frames it declined for an error of its own.
    """

    seen: list[Observed]
    warned: list[str]
    declined: int


def tried(scenario: Scenario, function: FunctionType, fault: Fault, from_call: int = 0) -> Tried:
    """Make the calls of a scenario, from some call on with a fault in a function."""
    with ExitStack() as block, warnings_of_ours() as warned:

        def before_call() -> None:
            nonlocal number
            if number == from_call:
                block.enter_context(planted(function, fault))
            number += 1

        number, state = 0, session.new_state(mends=True)
        seen = scenario.mended(state, before_call, block.close)
        declined = [decline for decline in state.report.declines if decline.reason in OF_ERRORS]
        return Tried(seen, warned, len(declined))


@contextmanager
def warnings_of_ours() -> Iterator[list[str]]:
    """Note the warnings of the library."""
    texts: list[str] = []
    told_once._tell.cache_clear()

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(record.getMessage())

    logger, handler = logging.getLogger("graphmend_bc"), Handler(logging.WARNING)
    logger.addHandler(handler)
    propagates, logger.propagate = logger.propagate, False
    try:
        yield texts
    finally:
        logger.propagate = propagates
        logger.removeHandler(handler)


def surroundings() -> list[object]:
    """What a failure must leave as it was: settings, modes, and what a thread is doing."""
    return [
        torch._dynamo.config.get_config_copy(),  # type: ignore[attr-defined]
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.is_inference_mode_enabled(),
        torch._C._len_torch_function_stack(),
        torch._C._len_torch_dispatch_stack(),
        torch._C._functorch.get_dynamic_layer_stack_depth(),
        torch._guards.TracingContext.try_get(),
        torch._guards.CompileContext.try_get(),
        torch.compiler.is_compiling(),
        utils._get_error_on_graph_break(),
        current(),
        eager_fallback._CURRENT.get(),
        compile_time._thread.compiles,
        getattr(verifier._holder, "busy", False),
        set(containment._LEFT),
        list(logging.getLogger("torch._subclasses.fake_tensor").filters),
    ]


def places() -> list[tuple[str, object]]:
    """What is in each place where a seam goes, but those that stay."""
    nothing = session._seams(MendingState())
    assert isinstance(nothing, Installer)
    return [
        (str(place), place.value())
        for seam in nothing.all()
        if seam.replaced and not seam.stays
        for place in seam.places()
    ]
