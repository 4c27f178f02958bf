"""What is told to torch's own logs: a trace for tlparse (TORCH_TRACE), and TORCH_LOGS=bytecode."""

from __future__ import annotations

import dis
import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath
from types import CodeType
from typing import Any, Final

import torch._logging

from graphmend_bc.runtime import Site

_LOGS: Final[Any] = torch._logging
_BYTECODE: Final = _LOGS.getArtifactLogger("torch._dynamo.convert_frame", "bytecode")


def trace_mend(strategy: str, site: Site, entry: Callable[[], dict[str, Any]]) -> None:
    """Put a mend into torch's structured trace, with the frame that is being compiled.

    Args:
        strategy, site: of the mend.
        entry: gives it in the form of the report's JSON; called only if there is such a trace.
    """
    place = f"{PurePath(site.filename).name}_{site.lineno}"
    name = re.sub(r"[^\w.-]", "_", f"graphmend_bc_{strategy}_{place}")
    _LOGS.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "json"},
        payload_fn=lambda: json.dumps(entry(), indent=2),
    )


def log_bytecode(
    code: CodeType, mends: Sequence[str], rewritten: Callable[[], Iterable[CodeType]]
) -> None:
    """Log what is mended in a frame, and the code that was traced; Dynamo's own follows.

    Args:
        code: the frame's own.
        mends: what is mended, each in words.
        rewritten: gives the code objects that were traced in place of the program's.
    """
    if not _BYTECODE.isEnabledFor(logging.DEBUG):
        return
    where = f"{code.co_name} {code.co_filename} line {code.co_firstlineno}"
    _BYTECODE.debug("MENDED BY graphmend_bc %s\n%s\n", where, "\n".join(mends))
    for each in rewritten():
        where = f"{each.co_name} {each.co_filename} line {each.co_firstlineno}"
        shown = dis.Bytecode(each).dis()
        _BYTECODE.debug("REWRITTEN BY graphmend_bc %s\n%s\n", where, shown)
