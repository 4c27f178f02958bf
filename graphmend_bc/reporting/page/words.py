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

STRATEGIES: Final[Mapping[str, str]] = {
    "fold": "the value is known while compiling, so there is nothing to break for",
    "accumulate": "what the function adds to is read and written after the graph",
    "once": "what happens at the first call only is done while compiling",
    "draw": "the random numbers are drawn before the graph and are inputs of it",
    "polyfill": "a function in Python that does the same is traced in its place",
    "probe": "the question is answered while compiling, and asked again before each call",
    "defer": "the call is made right after the graph, with the arguments that it had",
    "flags": "the block is traced as if it set nothing, because no operator in it looks",
    "leaf": "it is left out, because nobody can read what it would lead to",
    "copy": "the copy is traced as the method `copy` of what is copied",
    "train": "the training step is a part of the graph",
    "inline": "the marked region is traced at each of its calls",
    "where": "both arms are computed in the graph, and torch.where selects the result",
    "cond": "the graph has both arms, and only the one that is taken runs (torch.cond)",
    "while_loop": "the loop runs inside the graph (torch.while_loop)",
    "speculate": "the likely case is compiled and checked after the graph; if the check fails, "
    "everything is undone and the original code runs",
    "capture": "the number is a symbol of the graph, whose value is known when it runs",
    "hoist": "the value is computed before the graph and is an input of it",
}
"""What a mend by each strategy means, in a sentence."""
