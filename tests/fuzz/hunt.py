"""Batches of generated programs: judge each, shrink one that fails."""

from __future__ import annotations

import logging
import signal
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import HypothesisException

from tests.fuzz.kinds import KINDS, kinds_of
from tests.fuzz.programs import Program
from tests.fuzz.verdict import OURS, Fault, Verdict, judge

PATIENCE = 120
"""Seconds after which a program counts as one that hangs."""

PATIENCE_OF_INDUCTOR = 600
"""As before, where a compiler is called for each graph."""


class Hangs(Exception):
    """A program took longer than anybody would wait."""


@dataclass
class Catch:
    """What a batch came to.

    Attributes:
        faults: how many programs had which verdict, those tried while shrinking not counted.
        met: in how many of them each strategy was used and each reason to decline was given.
        kinds: how many of them were of each kind.
        failures: those that failed, and why; the smallest one alone where they are made small.
        stock: the smallest program that stock `torch.compile` gets wrong, if one was met, and why.
    """

    faults: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Program, str]] = field(default_factory=list)
    stock: tuple[Program, str] | None = None

    @property
    def failure(self) -> tuple[Program, str] | None:
        """A program that failed, and why."""
        return self.failures[0] if self.failures else None


def hunt(
    count: int,
    seed_: int,
    *,
    kind: str = "any",
    shrink: bool = True,
    about_to: Callable[[Program], None] | None = None,
) -> Catch:
    """Judge `count` programs, or as many as it takes to meet one that fails if that is made small.

    Args:
        count: how many programs.
        seed_: the same seed gives the same programs of a kind.
        kind: which programs, a key of `KINDS`.
        shrink: make a failing program small, which takes some hundred more runs.
        about_to: called with each program before it is judged.

    Returns:
        The verdicts, and the programs that failed.
    """
    catch = Catch()

    @seed(seed_)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        report_multiple_bugs=False,
    )
    @given(KINDS[kind])
    def examine(program: Program) -> None:
        if about_to is not None:
            about_to(program)
        verdict = verdict_on(program)
        if not (shrink and catch.failures):
            catch.faults[verdict.fault.name] += 1
            catch.met.update(verdict.strategies | verdict.declines)
            catch.kinds.update(verdict.kinds)
        if verdict.fault is Fault.STOCK:
            catch.stock = _smaller(catch.stock, program, verdict.difference)
        if verdict.fault in OURS:
            if not shrink:
                catch.failures.append((program, verdict.difference))
                return
            catch.failures[:] = [_smaller(catch.failure, program, verdict.difference)]
            raise AssertionError(verdict.difference)

    with _quiet():
        try:
            examine()
        except AssertionError:
            pass
        except HypothesisException as error:  # the program fails at times only
            if catch.failure is None:
                raise
            program, difference = catch.failure
            catch.failures[:] = [
                (program, f"{difference} (not every time: {type(error).__name__})")
            ]
    return catch


def verdict_on(program: Program) -> Verdict:
    """`judge`, with a limit of time; what it raises is a verdict too."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"It took more than {patience} seconds.")

    patience = PATIENCE_OF_INDUCTOR if program.backend == "inductor" else PATIENCE
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(patience)
    try:
        verdict = judge(program)
    except Exception as error:
        verdict = Verdict(Fault.MENDING, f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return replace(verdict, kinds=kinds_of(program))


def _smaller(
    best: tuple[Program, str] | None, program: Program, difference: str
) -> tuple[Program, str]:
    if best is None or len(program.test()) <= len(best[0].test()):
        return program, difference
    return best


@contextmanager
def _quiet() -> Iterator[None]:
    """Torch warns of what the programs do; a thousand times that is no help."""
    torch_logger = logging.getLogger("torch")
    level = torch_logger.level
    torch_logger.setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            torch_logger.setLevel(level)
