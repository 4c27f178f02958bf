"""Whether calls of a frame that was compiled are compared with eager Python: `config.verify`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphmend_bc import config
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.verification.isolation import Isolation
from graphmend_bc.dynamo.verification.verifier import Frame
from graphmend_bc.dynamo.verification.wrapper import add_verifier
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.state import MendingState
from graphmend_bc.runtime import Site


def verify(
    state: MendingState,
    compilation: Compilation,
    result: Any,
    mends: Mapping[Site, str],
    module_globals: dict[str, Any],
    *,
    cut: bool,
) -> None:
    """Have some calls of a mended frame compared, if the setting says so.

    Args:
        state: keeps what comes of it.
        compilation: of the frame.
        result: what Dynamo's `compile_frame` returned; its bytecode is wrapped.
        mends: what is mended in the frame, with the strategies.
        module_globals: its globals.
        cut: whether it ends at a break.
    """
    if not (config.verify and mends) or compilation.is_saved:
        return
    isolation = compilation.trace.known(Isolation) or Isolation()
    if cut:
        isolation.problem = "A graph break is left in it, and what follows may have effects."
    note = state.verification_of(compilation.code, site_of(compilation.code, 0))
    note.mends = tuple(f"{strategy} {site}" for site, strategy in mends.items())
    frame = Frame(
        code=compilation.code,
        module_globals=module_globals,
        isolation=isolation,
        note=note,
        every=config.verify,
        raises=config.verify_action == "raise",
    )
    add_verifier(result, frame)
