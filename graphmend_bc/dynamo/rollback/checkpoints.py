"""Calls of graphs inside activation checkpoints, whose recomputation must go as the forward went.

A checkpoint counts the tensors that its region saves for the backward pass, and stops the
recomputation at the last one. So what a graph saves that is thrown away must not count, a call
whose graph was thrown away runs its original code in the recomputation at once, and a call whose
graph was used runs that graph again.
"""

from __future__ import annotations

import inspect
import weakref
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch
from torch.utils import checkpoint

from graphmend_bc.reporting.speculation_stats import Tally
from graphmend_bc.runtime.deoptimise import Deoptimise

_top_hooks = torch._C._autograd._top_saved_tensors_default_hooks


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a graph in the forward pass of a checkpoint.

    Attributes:
        code: the frame's own code.
        tally: of the graph, if its results were used.
    """

    code: CodeType
    tally: Tally | None


@dataclass(slots=True)
class _Log:
    """The calls of graphs in one checkpoint.

    Attributes:
        calls: those of the forward pass, in order.
        repeated: how many of them each recomputation came by.
    """

    calls: list[_Call] = field(default_factory=list)
    repeated: dict[object, int] = field(default_factory=dict)


_LOGS: weakref.WeakKeyDictionary[Any, _Log] = weakref.WeakKeyDictionary()
"""By torch's own object for a checkpoint, which lives until its backward pass is done."""


@dataclass(frozen=True, slots=True)
class CheckpointRegion:
    """A checkpoint around the code that is running.

    Attributes:
        region: torch's own object for it; None if it could not be found.
        group: names the recomputation; None in the forward pass.
    """

    region: Any
    group: object = None

    @property
    def stops_early(self) -> bool:
        """Whether its recomputation may end before its code does."""
        return bool(getattr(self.region, "early_stop", True))

    def begin(self, code: CodeType, tally: Tally) -> CheckpointMark:
        """A graph that may be rolled back is about to be called.

        Args:
            code: the frame's own code.
            tally: of the graph.

        Raises:
            Deoptimise: the original code is to run at once.
            CheckpointError: the forward pass ran another graph.
        """
        # A selective checkpoint counts operators.
        if self.region is None or torch._C._len_torch_dispatch_stack() > 0:
            raise Deoptimise
        log = _LOGS.setdefault(self.region, _Log())
        if self.group is None:
            saved = [len(each) for each in self._saved()]
            return CheckpointMark(self, log, code, tally, saved)
        number = log.repeated.get(self.group, 0)
        log.repeated[self.group] = number + 1
        if number >= len(log.calls):
            return CheckpointMark(self, log, code, tally)
        before = log.calls[number]
        if before.tally is None:
            raise Deoptimise
        if before.code is not code or before.tally.speculations != tally.speculations:
            raise checkpoint.CheckpointError(
                "torch.utils.checkpoint: a function was compiled anew between the forward pass and"
                " its recomputation, and takes another way through a data-dependent branch for"
                " granted."
            )
        return CheckpointMark(self, log, code, tally)

    def _saved(self) -> list[list[Any]]:
        return [self.region.weak_holders, getattr(self.region, "x_metadatas", [])]


@dataclass(frozen=True, slots=True)
class CheckpointMark:
    """Where a call of a graph began in a checkpoint.

    Attributes:
        region: the checkpoint.
        log: of its calls.
        code: the frame's own.
        tally: of the graph.
        saved: how much was saved before.
    """

    region: CheckpointRegion
    log: _Log
    code: CodeType
    tally: Tally
    saved: list[int] = field(default_factory=list)

    @property
    def repeats(self) -> bool:
        """Whether this is the recomputation, which cannot begin anew."""
        return self.region.group is not None

    def used(self) -> None:
        """The graph's results are used."""
        if not self.repeats:
            self.log.calls.append(_Call(self.code, self.tally))

    def withdrawn(self) -> None:
        """They were to be used, and are not."""
        if not self.repeats:
            self.log.calls.pop()
            self.thrown_away()

    def thrown_away(self) -> None:
        """They are not: the original code is about to run."""
        if self.repeats:
            return
        for each, count in zip(self.region._saved(), self.saved, strict=True):
            del each[count:]
        self.log.calls.append(_Call(self.code, None))


def region() -> CheckpointRegion | None:
    """The checkpoint whose hooks get what is saved now, if there is one."""
    hooks = _top_hooks(True)
    if hooks is None:
        return None
    pack = inspect.unwrap(hooks[0])
    if getattr(pack, "__module__", None) != checkpoint.__name__:
        return None
    cells = zip(pack.__code__.co_freevars, pack.__closure__ or (), strict=True)
    known = {name: cell.cell_contents for name, cell in cells}
    if "target_frame_ref" in known and "gid" in known:
        return CheckpointRegion(known["target_frame_ref"](), known["gid"])
    return CheckpointRegion(known.get("frame"))


def whole_region() -> CheckpointRegion | None:
    """As `region`, for a graph after which something is done.

    Raises:
        Deoptimise: a recomputation may stop in the graph, and would lose that.
    """
    around = region()
    if around is not None and around.stops_early:
        raise Deoptimise
    return around


def stops_early() -> bool:
    """Whether there is a checkpoint around whose recomputation may end before its code does."""
    around = region()
    return around is not None and around.stops_early


def is_awaited(code: CodeType) -> bool:
    """Whether a recomputation is still to run a graph of a frame that the forward pass used.

    Args:
        code: the frame's own.
    """
    return any(
        call.code is code and call.tally is not None
        for log in list(_LOGS.values())
        for call in log.calls
    )
