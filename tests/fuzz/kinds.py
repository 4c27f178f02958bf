"""The kinds of generated programs: which are drawn how often, and which a program is of."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from tests.fuzz import aliases
from tests.fuzz.catalog import FAMILIES
from tests.fuzz.changing import changing_programs
from tests.fuzz.expressions import rarely
from tests.fuzz.programs import Program, programs
from tests.fuzz.ways import SHARED

_CHANGING: Final = {
    name: changing_programs(tuple(family), tuple(FAMILIES["surroundings"] | family))
    for name, family in FAMILIES.items()
}
_ALONE: Final = SHARED | {"gradients"}
_PLAIN: Final = {
    "plain": programs(),
    "aliases": programs(also=frozenset({aliases.GROUP})),
    "threads": programs(but=_ALONE).map(lambda program: replace(program, way="threads")),
    "saved": programs(but=_ALONE | {"sizes"}).map(lambda program: replace(program, way="saved")),
}

_WEIGHTS: Final = {
    **{"plain": 10, "aliases": 2, "threads": 1, "saved": 1},
    **{"surroundings": 3, "process": 4, "values": 4, "training": 3},
}
"""How often each family is drawn."""

_INDUCTOR = 10
"""One program of so many is compiled by Inductor."""


@st.composite
def _any(draw: Any) -> Program:
    """Every family, as often as its weight says."""
    names = [name for name, weight in _WEIGHTS.items() for _ in range(weight)]
    program: Program = draw(KINDS[draw(st.sampled_from(names))])
    return replace(program, backend="inductor") if rarely(draw, _INDUCTOR) else program


KINDS: Final[dict[str, st.SearchStrategy[Program]]] = {**_PLAIN, **_CHANGING}
"""By what `--kind` calls them."""

KINDS["any"] = _any()
KINDS["inductor"] = KINDS["any"].map(lambda program: replace(program, backend="inductor"))


# Which kinds a program is of

_SIGNS: Final = {
    "activation checkpoints": r"\bcheckpoint\(",
    "autograd functions": r"\bOwn\.apply\(",
    "schedulers": r"schedule\.step\(",
    "training steps": r"optimizer\.step\(",
    "backward passes": r"\.backward\(",
    "double backward": r"create_graph=True",
    "aliased arguments": r"def f\(x, y, z, k, a\b",
    "environment": r"os\.(environ|getenv)",
    "context variables": r"\b(keyed|bare)\.get\(",
    "imports in functions": r"\n +(import|from) ",
    "texts of enumerations": r"\bmode\.\w+\(",
    "operators of objects": r"\bOp\(",
    "attributes of classes": r"\bMarked\b",
    "state added to": r"\b(meter|tally)\b.*[+-]=",
    "numbers of arrays": r"\.numpy\(|\bnumpy\.(array|ones|int|float)",
    "bounds of slices": r"\bbounds\.",
    "inference mode": r"inference_mode\(",
    "numbers of constants": r"\blimit\b",
    "random draws": r"torch\.rand|dropout|rng\.",
    "effects": r"\bprint\(|\blogger\.",
    "branches": r"\n +if ",
    "loops": r"\n +(for|while) ",
    "exceptions": r"\n +(try:|raise|assert)",
}
"""By name, how the text of such a program is known."""


def kinds_of(program: Program) -> frozenset[str]:
    """The kinds that a program is of, as its text tells them.

    Args:
        program: shrunk or as it was drawn.
    """
    found = {name for name, sign in _SIGNS.items() if re.search(sign, program.source)}
    found.add(f"backend {program.backend}")
    found |= {"gradients of results"} if program.grad else set()
    found |= {"changing surroundings"} if program.changes else set()
    return frozenset(found | ({program.way} if program.way != "in turn" else set()))


ALL_KINDS: Final = (
    *_SIGNS,
    *("backend eager", "backend aot_eager", "backend inductor"),
    *("gradients of results", "changing surroundings", "threads", "saved"),
)
"""Every kind that a program may be of, but training steps where torch traces no backward pass."""
