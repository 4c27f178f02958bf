"""The arms of a census: one program run eagerly, compiled by stock torch, and compiled and mended.

Every arm starts from the same state and makes the same calls. What a user can see of each call is
kept as plain values, so that arms can be compared bit for bit.
"""

from __future__ import annotations

import gc
import linecache
import logging
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from seen import Seen

from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult, Report


@dataclass(slots=True)
class Arm:
    """What one arm came to.

    Attributes:
        calls: what was seen of each call, by path.
        error: the last line of the exception that ended the arm; empty if none did.
        seconds: processor time of each call.
        graphs, skipped: of the first call, as `graphmend_bc.explain` counts.
        breaks: the same.
        attempts: of each frame of the first call, how many it took besides the last one.
        later_graphs, later_breaks, later_skipped: the same of later calls.
        causes: the breaks of the first call: Dynamo's type, the place as "file:line", the source.
        later_causes: breaks that only later calls have.
        report: mends and declines.
        complaints: warnings and errors that graphmend_bc logged: frames it had to leave alone.
    """

    calls: list[Seen] = field(default_factory=list)
    error: str = ""
    seconds: list[float] = field(default_factory=list)
    graphs: int = 0
    breaks: int = 0
    skipped: int = 0
    attempts: list[int] = field(default_factory=list)
    later_graphs: int = 0
    later_breaks: int = 0
    later_skipped: int = 0
    causes: list[tuple[str, str, str]] = field(default_factory=list)
    later_causes: list[tuple[str, str, str]] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    complaints: list[str] = field(default_factory=list)


class Live(Protocol):
    """A subject made anew, for one arm."""

    @property
    def function(self) -> Any:
        """What is compiled."""

    def call(self, function: Any, number: int, seconds: list[float]) -> Seen:
        """Call what was compiled, or the function itself; note the time that it took."""


class Subject(Protocol):
    """A program to census."""

    @property
    def numbers(self) -> Sequence[int]:
        """A number for each call that an arm makes; the first compiles."""

    def fresh(self) -> Live:
        """The program as it is before its first call, sharing nothing with other arms."""


def eager(subject: Subject) -> Arm:
    """The arm without a compiler; errors are raised."""
    arm, live = Arm(), subject.fresh()
    _fresh_messages()
    for number in subject.numbers:
        arm.calls.append(live.call(live.function, number, arm.seconds))
    return arm


def compiled(subject: Subject, *, mends: bool) -> Arm:
    """An arm that is compiled with the backend "eager", with mending or without."""
    arm, live = Arm(), subject.fresh()
    state = session.new_state(mends=mends)
    frames: list[FrameResult] = []
    state.on_frame.append(frames.append)
    torch.compiler.reset()
    gc.collect()  # a full collection takes as long as half a small model
    _fresh_messages()
    first: int | None = None
    with session.mending_by(state), _breaks(arm.causes) as causes, _complaints(arm.complaints):
        function = torch.compile(live.function, backend="eager")
        for number in subject.numbers:
            try:
                arm.calls.append(live.call(function, number, arm.seconds))
            except Exception as error:
                arm.error = last_line(error)
                break
            finally:
                if first is None:
                    first = len(frames)
                    _count(arm, frames)
                    arm.causes = list(dict.fromkeys(causes))
        arm.report = state.report_now()
    _count_later(arm, frames[first:])
    arm.later_causes = [cause for cause in dict.fromkeys(causes) if cause not in arm.causes]
    torch.compiler.reset()
    return arm


def _count(arm: Arm, frames: list[FrameResult]) -> None:
    arm.graphs = sum(frame.graphs for frame in frames)
    arm.skipped = sum(frame.skipped for frame in frames)
    arm.breaks = max(arm.graphs - 1, sum(bool(frame.break_reason) for frame in frames))
    arm.attempts = [len(frame.attempts) for frame in frames]


def _count_later(arm: Arm, frames: list[FrameResult]) -> None:
    arm.later_graphs = sum(frame.graphs for frame in frames)
    arm.later_skipped = sum(frame.skipped for frame in frames)
    arm.later_breaks = sum(bool(frame.break_reason) for frame in frames)


def last_line(error: BaseException) -> str:
    """Type and message of an exception, on one line."""
    lines = [line for line in str(error).strip().split("\n") if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


# Breaks


class _BreakLog(logging.Handler):
    def __init__(self, causes: list[tuple[str, str, str]]) -> None:
        super().__init__(logging.DEBUG)
        self.causes = causes

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        place = re.search(r"in user code at (\S+:\d+)", text)
        frames = re.findall(r'File "([^"]+)", line (\d+)', text)
        where = place[1] if place else ":".join(frames[-1]) if frames else "?"
        kind = re.search(r"\n([^\n]+)\n  Explanation:", text)
        kind_text = kind[1].removeprefix("Graph Break Reason: ").strip() if kind else ""
        path, _, line = where.rpartition(":")
        source = linecache.getline(path, int(line)).strip() if path else ""
        self.causes.append((kind_text or text.split("\n")[0][:120], short(where), source))


def short(path: str) -> str:
    """A path from the packages' folder on."""
    return re.sub(r".*/(site-packages|tf\d+|build/libs)/", "", path)


@contextmanager
def _breaks(causes: list[tuple[str, str, str]]) -> Iterator[list[tuple[str, str, str]]]:
    """Notes the graph breaks that Dynamo logs."""
    names = ("torch._dynamo.symbolic_convert", "torch._dynamo.convert_frame")
    loggers = [logging.getLogger(f"{name}.__graph_breaks") for name in names]
    handler, before = _BreakLog(causes), [(log.level, log.propagate) for log in loggers]
    for log in loggers:
        log.addHandler(handler)
        log.setLevel(logging.DEBUG)
        log.propagate = False
    try:
        yield causes
    finally:
        for log, (level, propagate) in zip(loggers, before, strict=True):
            log.removeHandler(handler)
            log.setLevel(level)
            log.propagate = propagate


@contextmanager
def _complaints(texts: list[str]) -> Iterator[None]:
    """Notes what graphmend_bc warns of, instead of printing it."""
    log, handler = logging.getLogger("graphmend_bc"), logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(short(record.getMessage())[:300])  # type: ignore[method-assign]
    propagates = log.propagate
    log.addHandler(handler)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagates


# What the calls of all subjects share


class _Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[object, ...]] = []

    def emit(self, record: logging.LogRecord) -> None:
        place = (short(record.pathname), record.lineno, record.funcName)
        self.seen.append((record.name, record.levelname, record.getMessage(), *place))


def _fresh_messages() -> None:
    """Every message that comes once is due again."""
    cached = getattr(logging.Logger, "warning_once", None)
    for function in (cached, getattr(logging.Logger, "info_once", None)):
        if function is not None:
            function.cache_clear()


@contextmanager
def messages(logger: logging.Logger, told: Callable[[str], bool]) -> Iterator[list[Any]]:
    """Records that reach a logger, and the warnings whose file `told` accepts."""
    handler = _Records()
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield handler.seen
            handler.seen += [
                (w.category.__name__, str(w.message), short(w.filename), w.lineno)
                for w in caught
                if told(w.filename)
            ]
    finally:
        logger.removeHandler(handler)


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Notes the processor time that the block takes, whether it ends or raises."""
    start = time.process_time()
    try:
        yield
    finally:
        seconds.append(round(time.process_time() - start, 6))


def seed_all(seed: int) -> None:
    """Start the random numbers of torch, NumPy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


def random_numbers() -> Seen:
    """Where the random numbers are."""
    numbers = np.random.get_state(legacy=True)
    return {
        "random numbers of torch": torch.get_rng_state(),
        "random numbers of numpy": (numbers[1].tolist(), numbers[2]),
        "random numbers of Python": random.getstate(),
    }


def mean_of(leaves: dict[str, Any]) -> torch.Tensor:
    """The mean of all outputs that have a gradient, to begin a backward pass at.

    Raises:
        ValueError: there is none.
    """
    parts = [
        leaf.float().mean()
        for leaf in leaves.values()
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    if not parts:
        raise ValueError("no output has a gradient")
    return torch.stack(parts).sum()
