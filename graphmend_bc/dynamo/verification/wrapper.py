"""Have the generated code of a mended frame compared, in some of its calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch._dynamo

from graphmend_bc.dynamo.rollback.deopt_wrapper import switched_off
from graphmend_bc.dynamo.verification.verifier import Frame, Verifier
from graphmend_bc.rewriting.verified import Listener, with_listener


def add_verifier(result: Any, frame: Frame) -> None:
    """Wrap the bytecode of a `compile_frame` result, in place.

    Args:
        result: what Dynamo's `compile_frame` returned.
        frame: what is known of the frame.
    """
    verifier = Verifier(frame)
    listener = Listener(
        enter=_uncompiled(verifier.enter),
        leave=_uncompiled(verifier.leave),
        fail=_uncompiled(verifier.fail),
    )
    result.bytecode = with_listener(result.bytecode, listener)


def _uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    off: Callable[..., Any] = torch._dynamo.disable(switched_off(function))  # type: ignore[no-untyped-call]
    return off
