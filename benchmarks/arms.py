"""The arms of the census: one model run eagerly, compiled by stock torch, and compiled and mended.

Every arm starts from the same weights and makes the same calls. What a user can see of each call is
kept as plain values, so that arms can be compared bit for bit.
"""

from __future__ import annotations

import copy
import gc
import linecache
import logging
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from seen import Seen, aliasing, kept, leaves_of

from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult, Report

CALLS = (1, 2, 1)
"""Seeds of the calls that each arm makes; the first compiles."""


@dataclass(slots=True)
class Arm:
    """What one arm came to.

    Attributes:
        calls: what was seen of each call, by path.
        error: the last line of the exception that ended the arm; empty if none did.
        seconds: time of each call.
        graphs, skipped: of the first call, as `graphmend_bc.explain` counts.
        breaks: the same.
        attempts: of each frame of the first call, how many it took besides the last one.
        later_graphs: graphs compiled in later calls.
        causes: the breaks of the first call: Dynamo's type, the place as "file:line", the source.
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
    causes: list[tuple[str, str, str]] = field(default_factory=list)
    report: Report = field(default_factory=Report)
    complaints: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Subject:
    """A model to census.

    Attributes:
        fresh: makes a copy of the model that shares nothing with other copies.
        inputs: makes the arguments of a call from a seed.
        train: train the model; else it is evaluated without gradients.
        without_cache: call the model with `use_cache=False`.
    """

    fresh: Callable[[], torch.nn.Module]
    inputs: Callable[[int], dict[str, Any]]
    train: bool
    without_cache: bool = False


def eager(subject: Subject) -> Arm:
    """The arm without a compiler; errors are raised."""
    arm = Arm()
    model = _prepared(subject)
    _fresh_messages()
    for seed in CALLS:
        arm.calls.append(_call(model, model, subject, seed))
    return arm


def compiled(subject: Subject, *, mends: bool) -> Arm:
    """An arm that is compiled with the backend "eager", with mending or without."""
    arm = Arm()
    model = _prepared(subject)
    state = session.new_state(mends=mends)
    frames: list[FrameResult] = []
    state.on_frame.append(frames.append)
    torch.compiler.reset()
    gc.collect()  # a full collection takes as long as half a small model
    _fresh_messages()
    with session.mending_by(state), _breaks(arm.causes) as causes, _complaints(arm.complaints):
        function = torch.compile(model, backend="eager")
        for number, seed in enumerate(CALLS):
            start = time.perf_counter()
            try:
                arm.calls.append(_call(model, function, subject, seed))
            except Exception as error:
                arm.error = last_line(error)
                break
            finally:
                arm.seconds.append(round(time.perf_counter() - start, 3))
                if number == 0:
                    _count(arm, frames)
                    arm.causes = list(dict.fromkeys(causes))
        arm.report = state.report_now()
    arm.later_graphs = sum(frame.graphs for frame in frames) - arm.graphs
    torch.compiler.reset()
    return arm


def _prepared(subject: Subject) -> torch.nn.Module:
    return subject.fresh().train(subject.train)


def _count(arm: Arm, frames: list[FrameResult]) -> None:
    reasons = [frame.break_reason for frame in frames if frame.break_reason]
    arm.graphs = sum(frame.graphs for frame in frames)
    arm.skipped = sum(frame.skipped for frame in frames)
    arm.breaks = max(arm.graphs - 1, len(reasons))
    arm.attempts = [len(frame.attempts) for frame in frames]


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
    return re.sub(r".*/(site-packages|tf\d+)/", "", path)


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


# One call


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
def _messages() -> Iterator[list[tuple[object, ...]]]:
    """Log records and warnings of transformers."""
    logger, handler = logging.getLogger("transformers"), _Records()
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield handler.seen
            handler.seen += [
                (w.category.__name__, str(w.message), short(w.filename), w.lineno)
                for w in caught
                if "transformers" in w.filename
            ]
    finally:
        logger.removeHandler(handler)


def _call(model: torch.nn.Module, function: Any, subject: Subject, seed: int) -> Seen:
    """Make one call, and keep what can be seen of it."""
    inputs = subject.inputs(seed)
    if subject.without_cache:
        inputs["use_cache"] = False
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    seen: Seen = {}
    with torch.set_grad_enabled(subject.train), _messages() as messages:
        output = function(**inputs)
        leaves = dict(leaves_of(output, "output"))
        seen |= {"aliasing of outputs": aliasing(leaves)}
        if subject.train:
            _loss_of(leaves).backward()
    seen |= {path: kept(leaf) for path, leaf in leaves.items()}
    seen |= {f"gradient of {n}": kept(p.grad) for n, p in model.named_parameters()}
    seen |= {f"state {name}": kept(value) for name, value in model.state_dict().items()}
    seen |= {f"after: {path}": kept(leaf) for path, leaf in leaves_of(inputs, "input")}
    numbers = np.random.get_state(legacy=True)
    seen["random numbers of torch"] = torch.get_rng_state()
    seen["random numbers of numpy"] = (numbers[1].tolist(), numbers[2])
    seen["random numbers of Python"] = random.getstate()
    seen["messages"] = list(messages)
    return seen


def _loss_of(leaves: dict[str, Any]) -> torch.Tensor:
    """The loss, or the mean of all outputs that have a gradient."""
    loss = leaves.get("output.loss")
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        return loss.sum()
    parts = [
        leaf.float().mean()
        for leaf in leaves.values()
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.is_floating_point()
    ]
    if not parts:
        raise ValueError("no output has a gradient")
    return torch.stack(parts).sum()


def copier(model: torch.nn.Module, rebuilt: Callable[[], torch.nn.Module]) -> Callable[[], Any]:
    """A function that copies a model, or builds it anew where it cannot be copied."""

    def fresh() -> torch.nn.Module:
        try:
            return copy.deepcopy(model)
        except RuntimeError:  # tensors with a history, such as weights that are normed
            other = rebuilt()
            other.load_state_dict(model.state_dict())
            return other

    return fresh
