"""The kinds of generated programs."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from tests.fuzz import process
from tests.fuzz.callables import SURROUNDINGS
from tests.fuzz.changing import changing_programs
from tests.fuzz.expressions import rarely
from tests.fuzz.programs import Program, programs

_OWN = tuple(name for name in SURROUNDINGS if name not in process.SURROUNDINGS)
"""Surroundings that a program has to itself."""

_CHANGING = {
    "surroundings": changing_programs(_OWN, _OWN),
    "process": changing_programs(tuple(process.SURROUNDINGS)),
}


@st.composite
def _any(draw: Any) -> Program:
    """Every third program has surroundings that change."""
    kinds = st.sampled_from(tuple(_CHANGING)).flatmap(_CHANGING.__getitem__)
    program: Program = draw(kinds if rarely(draw, 3) else programs())
    return program


KINDS: Final[dict[str, st.SearchStrategy[Program]]] = {
    "any": _any(),
    "plain": programs(),
    **_CHANGING,
}
"""By what `--kind` calls them."""
