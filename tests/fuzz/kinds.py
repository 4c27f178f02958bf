"""The kinds of generated programs."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from tests.fuzz.changing import changing_programs
from tests.fuzz.expressions import rarely
from tests.fuzz.programs import Program, programs


@st.composite
def _any(draw: Any) -> Program:
    """Every third program has surroundings that change."""
    program: Program = draw(changing_programs() if rarely(draw, 3) else programs())
    return program


KINDS: Final[dict[str, st.SearchStrategy[Program]]] = {
    "any": _any(),
    "plain": programs(),
    "surroundings": changing_programs(),
}
"""By what `--kind` calls them."""
