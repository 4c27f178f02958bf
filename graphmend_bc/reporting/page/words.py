"""The words of the page, each in a sentence, as docs/glossary.md has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

WORDS: Final[Mapping[str, str]] = {
    "graph": "a run of tensor operators that the backend compiles as a whole",
    "graph break": "the place where Dynamo ends a graph because it cannot trace on",
    "skipped frame": "a frame that Dynamo gives up and runs eagerly as a whole",
    "stock": "`torch.compile` without graphmend_bc",
    "mend": "a place in a program where Dynamo would have broken the graph and now does not; "
    "`report().mends` lists them",
    "decline": "a break that is left as stock Dynamo has it, with a reason code; "
    "`report().declines` lists them",
    "strategy": "what the report calls the result of a rule: `where`, `cond`, `speculate`, `defer` "
    "...; several rules may share one",
    "attempt": "one trace of a frame, from its start; most frames take one",
    "speculation": "a truth value or size is assumed, compiled in, and checked after the graph",
    "failed check": "the check found that a speculation was wrong in this call; the report counts "
    "them in `failed_checks`",
    "flip, re-specialise": "assume the other value from now on, and compile the frame again; the "
    "report counts it in `respecialised`",
    "deferred call": "a call without a used result (`print`, a logger) that runs right after the "
    "graph",
    "arm": "one side of a branch, up to the place where the two sides join",
    "basic block": "a run of instructions that is entered only at its first and left only at its "
    "last",
}
"""The words, in the order in which a reader needs them."""
