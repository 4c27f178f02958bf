"""Errors of this library: a frame in which there is one is left to stock, with one reason."""

from __future__ import annotations

import os
import traceback

from torch._dynamo.exc import InternalTorchDynamoError

from graphmend_bc.dynamo.frames.breaks import first_line
from graphmend_bc.dynamo.frames.generated_code import OURS, TORCH
from graphmend_bc.reporting.reasons import Refused


class InternalError(Exception):
    """This library failed in an attempt, whatever Dynamo made of that.

    Its traceback is that of the attempt; the failure is its cause.

    Args:
        failure: what was raised.
        outcome: what the attempt ended with; None if it is the failure.

    Attributes:
        failure: as above.
    """

    def __init__(self, failure: Exception, outcome: Exception | None = None) -> None:
        super().__init__(repr(failure))
        self.__cause__ = self.failure = failure
        self.__traceback__ = (outcome or failure).__traceback__

    @property
    def refused(self) -> Refused:
        """The reason that is reported."""
        failure = self.failure
        if is_too_deep(failure):
            return Refused("does-not-compile", f"{type(failure).__name__}: {first_line(failure)}.")
        where = next(
            (
                f" at {os.path.relpath(frame.f_code.co_filename, OURS)}:{line}"
                for frame, line in reversed([*traceback.walk_tb(failure.__traceback__)])
                if frame.f_code.co_filename.startswith(OURS)
            ),
            "",
        )
        said = f"It raised {type(failure).__name__}{where}: {first_line(failure)}"
        return Refused("internal-error", said if said.endswith(".") else f"{said}.")


def is_too_deep(error: BaseException) -> bool:
    """True if the stack was too short for an attempt: what is ours takes a part of it.

    Args:
        error: what was raised while a frame was traced, or an error of ours.
    """
    failure = error.failure if isinstance(error, InternalError) else error
    return isinstance(failure, RecursionError)


def is_ours(error: Exception) -> bool:
    """True if this library raised an error, or what it called that is not torch.

    Args:
        error: what was raised while a frame was traced.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        if frame.f_code.co_filename.startswith((OURS, TORCH)):
            return frame.f_code.co_filename.startswith(OURS)
    return False


def is_internal(error: Exception) -> bool:
    """True if an error is ours and of no class of ours or torch's, which somebody awaits.

    Args:
        error: what was raised while a frame was traced, or its guards were made.
    """
    if isinstance(error, InternalError):
        return True
    awaited = type(error).__module__.startswith(("graphmend_bc.", "torch."))
    # `NotImplementedError` is what Dynamo's variables raise that have no value, and is awaited.
    awaited |= isinstance(error, NotImplementedError)
    # Dynamo puts it in the place of what it does not know, with the same traceback.
    return (not awaited or isinstance(error, InternalTorchDynamoError)) and is_ours(error)
