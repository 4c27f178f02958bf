"""What the tiny programs find: whether each seam is reached, and has its effect."""

from __future__ import annotations

import functools
import importlib.util
import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

import torch

from graphmend_bc import config
from graphmend_bc.canary.absences import (
    OF_ATTRIBUTES,
    OF_CLASSES,
    OF_ITEMS,
    OF_ITEMS_BY_NAME,
    OF_SPECIAL_METHODS,
)
from graphmend_bc.canary.frames import OF_FRAMES, OF_OPERATORS, OF_TENSORS
from graphmend_bc.canary.program import Program
from graphmend_bc.canary.values import OF_LIBRARIES, OF_VALUES
from graphmend_bc.canary.watching import places_of, watching
from graphmend_bc.contrib.load import load as load_contrib
from graphmend_bc.dynamo.patches.capabilities import ESSENTIAL
from graphmend_bc.dynamo.patches.installer import Installer
from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.dynamo.trace.default_settings import default_settings
from graphmend_bc.engine.frame_compiler import compile_frame
from graphmend_bc.engine.outcomes.failures import report_error
from graphmend_bc.engine.state import MendingState
from graphmend_bc.rules.registry import BUILT_IN

PROGRAMS: Final[Mapping[str, Program]] = MappingProxyType(
    {
        **OF_FRAMES,
        **OF_TENSORS,
        **OF_OPERATORS,
        **OF_VALUES,
        **OF_LIBRARIES,
        **OF_ITEMS,
        **OF_ITEMS_BY_NAME,
        **OF_ATTRIBUTES,
        **OF_CLASSES,
        **OF_SPECIAL_METHODS,
    }
)
"""The program of each seam, by the seam's label."""


_STRATEGIES: Final = tuple(
    dict.fromkeys(["fold", *(rule.strategy for rule in BUILT_IN), "flags", "inline"])
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one seam.

    Attributes:
        seam: the seam.
        missing: whether this torch has nothing to replace there.
        reached: whether its program comes by.
        fault: what is wrong with the result of the program; empty if nothing.
        ran: False if there is no program for it here.
    """

    seam: Seam
    missing: bool = False
    reached: bool = False
    fault: str = ""
    ran: bool = True

    @property
    def holds(self) -> bool:
        """True if what rests on the seam may mend, as far as is known."""
        return not self.missing and (not self.ran or (self.reached and not self.fault))


def findings(*, quick: bool = False, only: str = "", without: str = "") -> Iterator[Finding]:
    """Run the programs, in this process and with its torch.

    Args:
        quick: leave out what takes long or changes more than it should while mending goes on.
        only: label of the one seam that is of interest; empty for all.
        without: label of a seam that is not put in; for showing that its program needs it.
    """
    load_contrib()
    state = MendingState()
    seams = Installer(state, partial(compile_frame, state), partial(report_error, state))
    every = seams.all()
    missing = {seam.label for seam in every if not places_of(seam)}
    if any(seam.needed_by == ESSENTIAL and seam.label in missing for seam in every):
        yield from (Finding(seam, missing=seam.label in missing, ran=False) for seam in every)
        return
    with _installed(seams, without), watching(every) as reached, _as_by_default():
        for seam in every:
            if only not in ("", seam.label):
                continue
            if seam.label in missing:
                yield Finding(seam, missing=True)
                continue
            program = PROGRAMS.get(seam.label)
            if program is None or not _can_run(program, quick):
                yield Finding(seam, ran=False)
                continue
            reached.clear()
            fault = program.fault(state)
            by = {str(place) for place in places_of(seam)} & reached
            yield Finding(seam, reached=bool(by), fault=fault)


@functools.cache
def bypassed() -> Mapping[str, str]:
    """The seams that this torch has, but to no use; each with what is wrong. Found out once.

    Returns:
        By the seam's label, how a sentence that begins with "torch, which" goes on.
    """
    return {
        found.seam.label: ("does something else with" if found.reached else "goes around")
        + f" {places_of(found.seam)[0]}"
        for found in findings(quick=True)
        if not found.missing and not found.holds
    }


def _can_run(program: Program, quick: bool) -> bool:
    needed = not program.needs or importlib.util.find_spec(program.needs) is not None
    return needed and (program.quick or not quick)


@contextmanager
def _installed(seams: Installer, without: str) -> Iterator[None]:
    seams.install(without=without)
    try:
        yield
    finally:
        seams.remove()


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is logged of the programs."""
    loggers = [logging.getLogger(name) for name in ("torch", "torch._dynamo", "graphmend_bc")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _as_by_default() -> Iterator[None]:
    """The settings of this process, its generator and its modes are not the programs'."""
    with ExitStack() as block:
        block.enter_context(default_settings())
        block.enter_context(config.patch(rules_off=(), strategies=_STRATEGIES))
        block.enter_context(_quiet())
        block.enter_context(torch.compiler.set_stance("default"))
        block.enter_context(torch.inference_mode(False))
        block.enter_context(torch.enable_grad())
        block.enter_context(torch.random.fork_rng(devices=[]))
        if torch.get_default_device().type != "cpu":
            block.enter_context(torch.device("cpu"))
        yield
