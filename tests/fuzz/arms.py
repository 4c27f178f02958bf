"""The arms of the comparison: a program by eager Python, rewritten, mended or stock, and where two differ."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch._dynamo import guards

from graphmend_bc import session
from graphmend_bc.code.resume_names import without_resumption
from graphmend_bc.engine.state import MendingState
from graphmend_bc.reporting.report import FrameResult
from graphmend_bc.testing.observation import FIELDS, Observed
from tests.fuzz.programs import Program
from tests.fuzz.ways import UNGUARDED, WAYS


def compiled(
    program: Program,
    state: MendingState,
    backend: Callable[..., Any] | None = None,
    frames: list[list[FrameResult]] | None = None,
) -> list[Observed]:
    """All calls, compiled; `frames` gets a list of what is compiled in each call."""
    noted = [] if frames is None else frames
    state.on_frame.append(lambda frame: noted[-1].append(frame))
    torch._dynamo.reset()
    mending = session.mending_by(state)
    used = backend or program.backend
    options: dict[str, Any] | None = None
    if used == "inductor":  # set as an option, it holds in every thread
        options = {"fallback_random": True}  # draws as eager Python does
    # Every compilation times its guards on a flushed cache, which costs more than the rest of it.
    timing = patch.object(guards, "profile_guard_manager", return_value=0.0)
    with mending, timing:
        return run(
            program,
            lambda f: torch.compile(
                f, backend=used, fullgraph=program.way == "saved", options=options
            ),
            lambda: noted.append([]),
        )


def run(
    program: Program, wrap: Callable[..., Any], before_call: Callable[[], object] = lambda: None
) -> list[Observed]:
    """All calls, in a thread of their own: an exception left as `sys.exc_info()` ends with it."""
    seen: list[Observed] = []
    failed: list[BaseException] = []

    def call() -> None:
        try:
            seen.extend(WAYS[program.way](program, wrap, before_call))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return seen


_TRACEBACK = re.compile(r"from user code:.*?(?=Set TORCHDYNAMO_VERBOSE)")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_MODULE = re.compile(r"\bprogram_\d+\b")
_FORBIDDEN = "Detected recompile when torch.compile stance is"
_NEGATIVE_ZERO = re.compile(r"-0\.0(?!\d)")


def shown(seen: Observed, name: str) -> str:
    """A field as text, without what docs/semantics.md does not promise.

    That is the sign of a gradient that is zero; and where a break stays, log records carry the name
    of Dynamo's function, and Dynamo's own errors say which of its frames they were raised in. A
    stance forbids to compile a frame again, of which the guards are told that failed. The address of an
    object is another one in each arm, and so is the name of the module.
    """
    if name == "exception" and _FORBIDDEN in repr(seen.exception):
        return _FORBIDDEN
    text = _MODULE.sub("program", without_resumption(repr(getattr(seen, name))))
    text = _ADDRESS.sub("", _TRACEBACK.sub("", text))
    return _NEGATIVE_ZERO.sub("0.0", text) if name == "gradients" else text


def where(expected: list[Observed], actual: list[Observed]) -> tuple[int, str] | None:
    """The first call and the first field that differ."""
    for number, (want, got) in enumerate(zip(expected, actual, strict=True)):
        if UNGUARDED in repr(got.exception):
            continue
        for name in FIELDS:
            if shown(want, name) != shown(got, name):
                return number, name
    return None


def difference_of(expected: list[Observed], actual: list[Observed]) -> str:
    """What differs first, in words; nothing if two arms agree."""
    place = where(expected, actual)
    if place is None:
        return ""
    number, name = place
    want, got = shown(expected[number], name), shown(actual[number], name)
    return f"call {number}: {name} is {got} instead of {want}"
