"""Run the original code of a mended frame after it, on copies from before, and compare."""

from __future__ import annotations

import contextvars
import itertools
import logging
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import CellType, CodeType
from typing import Any, Final

import torch

from graphmend_bc.dynamo.frames.generated_code import as_the_users
from graphmend_bc.dynamo.frames.profiler_labels import deoptimised
from graphmend_bc.dynamo.graph.state_snapshot import Before, StateSnapshot
from graphmend_bc.dynamo.rollback.raised_errors import comes_from_outside
from graphmend_bc.dynamo.verification.comparison import Comparison, same_output
from graphmend_bc.dynamo.verification.copies import (
    MISSING,
    NotCopied,
    World,
    copied,
    in_place,
    named_in,
    world_of,
)
from graphmend_bc.dynamo.verification.isolation import Isolation
from graphmend_bc.dynamo.verification.random_state import RandomState
from graphmend_bc.reporting.verification import Difference, Verification
from graphmend_bc.runtime.deoptimise import Deoptimizer
from graphmend_bc.runtime.forks import lock_over_forks
from graphmend_bc.runtime.shown_effects import Heard, listening, noted
from graphmend_bc.runtime.signal_handlers import pass_on
from graphmend_bc.runtime.told_once import told_once

log = logging.getLogger("graphmend_bc")


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What is known of a mended frame.

    Attributes:
        code: its own.
        module_globals: its globals.
        isolation: whether it can be repeated.
        note: keeps what came of it.
        every: which calls are compared: each of so many.
        raises: whether a difference is raised.
    """

    code: CodeType
    module_globals: dict[str, Any]
    isolation: Isolation
    note: Verification
    every: int
    raises: bool


@dataclass(slots=True, eq=False)
class Eager:
    """What eager Python made of a call.

    Attributes:
        raised: whether it raised.
        value: what it raised or returned.
        world: the copies, as it left them.
        random: the random generators, as it left them.
        shown: what it printed and logged.
    """

    raised: bool
    value: Any
    world: World
    random: RandomState
    shown: list[str]


@dataclass(slots=True, eq=False)
class Checked:
    """A call that is being compared, as it was when it began.

    Attributes:
        cells, values: what the frame was given.
        copies: of all that it can reach.
        random, modes, context: the random generators, modes and context variables.
        listening: notes what the call shows.
        heard: what it has shown.
    """

    cells: tuple[CellType, ...]
    values: tuple[Any, ...]
    copies: World
    random: RandomState
    modes: Before
    context: contextvars.Context
    listening: AbstractContextManager[Heard]
    heard: Heard


_one_at_a_time: Final = lock_over_forks()
"""Held from the beginning of a call that is compared until its end."""

_holder = threading.local()


class Verifier:
    """Is told of each call of a mended frame, and compares some of them.

    Args:
        frame: what is known of it.
    """

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.names = sorted(named_in(frame.code) | frame.isolation.names)
        self.calls = itertools.count()

    def enter(self, cells: tuple[CellType, ...], values: tuple[Any, ...]) -> list[Checked] | None:
        """Copy what the frame can reach, if the call that begins is to be compared.

        Returns:
            The call in a list, which is emptied when it is over; None if it is not compared.
        """
        if getattr(_holder, "busy", False) or next(self.calls) % self.frame.every:
            return None
        try:
            problem = self.frame.isolation.problem or _problem_now()
            if problem or not _one_at_a_time.acquire(blocking=False):
                self.frame.note.note_left(problem or "Another thread has a call compared.")
                return None
        except Exception as error:
            told_once("does not compare a call", error)
            return None
        _holder.busy = True
        try:
            return [self._begin(cells, values)]
        except Exception as error:
            _end()
            pass_on(error)
            self._leave_out(error)
            return None
        except BaseException:
            _end()
            raise

    def leave(self, checked: list[Checked] | None, value: Any) -> Any:
        """A call returns: compare it, and give what it returns."""
        if checked:
            self._ends(checked.pop(), False, value)
        return value

    def fail(self, checked: list[Checked] | None, error: BaseException) -> None:
        """A call raises: compare it."""
        if checked:
            self._ends(checked.pop(), True, error)

    def _begin(self, cells: tuple[CellType, ...], values: tuple[Any, ...]) -> Checked:
        frame = self.frame
        world = world_of(values, cells, frame.module_globals, self.names)
        copies, known = copied(world)
        if unlike := _differences(world, copies, frame.code):
            raise NotCopied(f"A copy is not equal to what is copied. {unlike[0]}")
        scope = dict(zip(frame.code.co_varnames, values, strict=False))
        scope |= dict(zip(frame.code.co_freevars, world.contents, strict=True))
        if problem := frame.isolation.problem_in(scope, frame.module_globals, known):
            raise NotCopied(problem)
        modes, block = StateSnapshot(switches=True).remember(()), listening()
        context, random = contextvars.copy_context(), RandomState.now()
        return Checked(cells, values, copies, random, modes, context, block, block.__enter__())

    def _ends(self, checked: Checked, raised: bool, value: Any) -> None:
        """Compare a call that has ended.

        Raises:
            BaseException: what came from outside while the original code ran, or an AssertionError
                if the settings want one.
        """
        try:
            try:
                error = self._check(checked, raised, value)
            finally:
                _end()
        except Exception as ours:
            told_once("does not compare a call", ours)
            return
        if error is not None:
            raise error

    def _check(self, checked: Checked, raised: bool, value: Any) -> BaseException | None:
        """Compare it, and say what is to be raised."""
        try:
            checked.listening.__exit__(None, None, None)
            if raised and comes_from_outside(value):
                return None
            if checked.heard.problem:
                raise NotCopied(checked.heard.problem)
            eager = self._eager(checked)
            if eager.raised and comes_from_outside(eager.value):
                outside: BaseException = eager.value
                return outside
            found = self._compared(checked, eager, raised, value)
        except Exception as error:
            pass_on(error)
            self._leave_out(error)
            return None
        return self._tell(found)

    def _eager(self, checked: Checked) -> Eager:
        """Run the original code on the copies, from where the call began."""
        frame, shown = self.frame, list[str]()
        drawn, modes = RandomState.now(), StateSnapshot(switches=True).remember(())
        copies, own = checked.copies, tuple(map(_cell, checked.copies.contents))
        now = world_of((), (), frame.module_globals, self.names).named
        original = Deoptimizer(as_the_users(frame.code), frame.module_globals)
        deoptimised.depth += 1
        try:
            with in_place(copies.named, now, frame.module_globals), noted(shown, passes=False):
                checked.modes.restore_modes()
                checked.random.restore()
                raised, value = checked.context.run(original.run, own, copies.values)
                left = world_of(copies.values, own, frame.module_globals, self.names)
            return Eager(raised, value, left, RandomState.now(), shown)
        finally:
            deoptimised.depth -= 1
            modes.restore_modes()
            drawn.restore()

    def _tell(self, found: list[Difference]) -> AssertionError | None:
        is_first, text = self.frame.note.note(found), self.frame.note.warning()
        if found and self.frame.raises:
            return AssertionError(text)
        if is_first:
            log.warning("%s", text)
        return None

    def _leave_out(self, error: Exception) -> None:
        said = str(error) if isinstance(error, NotCopied) else f"Comparing it raises {error!r}."
        self.frame.note.note_left(said)

    def _compared(
        self, checked: Checked, eager: Eager, raised: bool, value: Any
    ) -> list[Difference]:
        frame, comparison = self.frame, Comparison()
        if eager.raised != raised:
            outcomes = [_outcome(eager.raised, eager.value), _outcome(raised, value)]
            comparison.tell("the result", f"eager {outcomes[0]}, mended {outcomes[1]}")
        else:
            name = "the exception" if raised else "the result"
            comparison.compare(name, eager.value, value)
        got = world_of(checked.values, checked.cells, frame.module_globals, self.names)
        _compare_worlds(comparison, eager.world, got, frame.code)
        comparison.compare_memory()
        if generators := eager.random.differs_in(RandomState.now()):
            comparison.tell("random numbers", f"the generators of {generators} differ afterwards")
        printed = "".join(eager.shown), "".join(checked.heard.shown)
        if not same_output(*printed):
            comparison.tell("output", f"{printed[0]!r} in eager, {printed[1]!r} mended")
        return comparison.found


def _differences(one: World, other: World, code: CodeType) -> list[Difference]:
    comparison = Comparison()
    _compare_worlds(comparison, one, other, code)
    comparison.compare_memory()
    return comparison.found


def _compare_worlds(comparison: Comparison, want: World, got: World, code: CodeType) -> None:
    for one, other, name in zip(want.values, got.values, code.co_varnames, strict=False):
        comparison.compare(f"the argument {name!r}", one, other)
    for one, other, name in zip(want.contents, got.contents, code.co_freevars, strict=True):
        comparison.compare(f"the variable {name!r}", one, other)
    for name, other in got.named.items():
        comparison.compare(f"the global {name!r}", want.named[name], other)


def _end() -> None:
    """The call that is compared is over, or none is compared after all."""
    _holder.busy = False
    _one_at_a_time.release()


def _cell(content: Any) -> CellType:
    return CellType() if content is MISSING else CellType(content)


def _outcome(raised: bool, value: Any) -> str:
    return f"raises {value!r}" if raised else "returns"


def _problem_now() -> str:
    """Why no call can be repeated at this moment; empty if one can."""
    if torch._C._functorch.get_dynamic_layer_stack_depth():
        return "A transform of torch.func runs."
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        return "A mode would see the operators that are repeated."
    if torch._C._autograd._top_saved_tensors_default_hooks(False) is not None:
        return "Hooks on saved tensors, such as a checkpoint's, would see them twice."
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        return "A CUDA graph is being recorded."
    return ""
