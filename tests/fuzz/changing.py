"""Programs whose surroundings change between their calls.

Such a program reads surroundings, breaks the graph, and has a function `change(number)`, which the oracle calls
before each call in every arm. Its arguments stay alike, so that nothing but the change asks for a
recompilation, and no speculation goes wrong in each call.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.catalog import SURROUNDINGS
from tests.fuzz.expressions import fill
from tests.fuzz.programs import (
    RETURNS,
    VECTORS,
    WHOLES,
    Program,
    backends,
    function,
    module_of,
)
from tests.fuzz.scope import Scope
from tests.fuzz.statements import Lines, block, breaking, reading
from tests.fuzz.surroundings import Surrounding

MOST_SURROUNDINGS = 3

_GROUPS = ("in place", "closures", "comprehensions", "effects", "gradients", "objects", "raises")
"""Of the grammar's groups, those that leave a program likely to be mended and to run to its end."""

_DIFFERENTIATED = {"checkpoints", "derivatives", "functions"}
"""Surroundings that show most in gradients."""

_TABLES = (
    "{}",
    "{'a': torch.ones(3) * 3}",
    "{'b': torch.ones(3) * 2}",
    "{'a': 3.0, 'b': torch.ones(3)}",
    "{'b': torch.ones(3), 'a': torch.ones(3)}",
)
"""Dicts that a call may be given."""


@st.composite
def changing_programs(
    draw: Any, first: Sequence[str], others: Sequence[str] = tuple(SURROUNDINGS)
) -> Program:
    """Programs that read surroundings, which change between the calls.

    Args:
        first: the surroundings of which a program has one.
        others: those of which it may have more.
    """
    more = st.lists(st.sampled_from(others), max_size=MOST_SURROUNDINGS - 1)
    names = list(dict.fromkeys([draw(st.sampled_from(first)), *draw(more)]))
    surroundings = [SURROUNDINGS[name] for name in names]
    groups = set(names) | {group for group in _GROUPS if draw(st.integers(0, 3)) == 3}
    if _DIFFERENTIATED & groups and draw(st.booleans()):
        groups.add("gradients")
    grad = "gradients" in groups
    if grad:
        groups -= {"in place"}
    shared = Scope(frozenset(groups), set())
    parts = [draw(st.sampled_from(one.definitions)) for one in surroundings]
    parts += [one.readers for one in surroundings if one.readers]
    if draw(st.booleans()):
        groups.add("calls")
        parts.append(draw(function("def helper(x, k=2):", "xk", groups - {"calls"}, shared)))
    held = [one.name for one in surroundings if one.name]
    way = draw(st.sampled_from(["global", "default", "cell", "argument"]))
    is_given = way == "argument" and "table" in held and "whole" not in names
    given = draw(_tables()) if is_given else None
    f = draw(_f(names, groups, shared))
    parts.append(_module(f) if "whole" in names else _held(f, held, way, is_given))
    calls = draw(_calls(grad, given))
    parts.append(draw(_change(surroundings, len(calls))))
    backend = draw(backends())
    return Program(module_of("\n".join(parts)) + "\n", calls, backend, grad)


@st.composite
def _f(draw: Any, names: list[str], groups: set[str], shared: Scope) -> str:
    """`f`: reads and breaks in some order, with what else the grammar has between them."""
    scope = shared.inner(groups=frozenset(groups), bound=set("xyzk"), assigned=set(), depth=3)
    kinds = [
        "read",
        "break",
        *draw(st.lists(st.sampled_from(["read", "break", "block"]), max_size=3)),
    ]
    lines: Lines = []
    for kind in draw(st.permutations(kinds)):
        if kind == "read":
            made = reading(scope, draw(st.sampled_from(names)))
        else:
            made = breaking(scope) if kind == "break" else block(scope, most=2, indent="")
        lines += ["    " + line for line in draw(made)]
    shown = [*scope.names("vector"), *scope.names("number")]
    returns = draw(st.sampled_from((f"return {', '.join(shown)}", *RETURNS)))
    lines.append("    " + fill(draw, scope, returns, 1))
    return "\n".join(["def f(x, y, z, k):", *lines])


def _held(text: str, held: Iterable[str], way: str, given: bool) -> str:
    """`f`, which has what it reads in globals, in defaults of its own, in cells, or is given a table."""
    header = "def f(x, y, z, k"
    if given:
        return text.replace(header, f"{header}, table", 1)
    if not held or way not in ("default", "cell"):
        return text
    if way == "default":
        defaults = "".join(f", {name}={name}" for name in held)
        return text.replace(header, header + defaults, 1)
    names = ", ".join(held)
    inside = textwrap.indent(text, "    ")
    return f"def make({names}):\n{inside}\n    return f\n\nf = make({names})"


def _module(text: str) -> str:
    """`f` as a module, whose `forward` it is."""
    forward = textwrap.indent(text.replace("def f(", "def forward(self, ", 1), "    ")
    return f"class Whole(nn.Module):\n{forward}\n\nf = Whole()"


@st.composite
def _change(draw: Any, surroundings: list[Surrounding], count: int) -> str:
    """`change`, which makes none to three changes before each call but the first."""
    kinds = [kind for surrounding in surroundings for kind in surrounding.changes.values()]
    changes = st.sampled_from(kinds).flatmap(st.sampled_from)
    text = ""
    for number in range(1, count):
        made = draw(st.lists(changes, min_size=number == 1, max_size=3))
        if made:
            text += (
                f"    if number == {number}:\n" + textwrap.indent("\n".join(made), " " * 8) + "\n"
            )
    return f"def change(number):\n    global {', '.join(_REBOUND)}\n{text}"


_REBOUND = (
    *("table", "rows", "level", "spare", "abs", "shift"),
    *("apart", "rate", "around", "rng"),
    *("mode", "left", "marked", "meter", "tally", "array"),
    *("part", "cubed", "keyed"),
)
"""Globals that changes assign."""


@st.composite
def _tables(draw: Any) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(_TABLES), min_size=2, max_size=2)))


@st.composite
def _calls(draw: Any, grad: bool, tables: tuple[str, ...] | None) -> tuple[str, ...]:
    """Two to five calls, most of them with the same tensors."""
    suffix = ", requires_grad=True" if grad else ""
    usual, unusual = draw(st.permutations(VECTORS[:2]))
    rows, whole = (draw(st.sampled_from(numbers)) for numbers in (VECTORS, WHOLES))
    calls = []
    for number in range(draw(st.integers(2, 5))):
        vector = unusual if draw(st.integers(0, 3)) == 3 else usual
        given = "" if tables is None else f", {(tables * 3)[number]}"
        calls.append(
            f"(torch.tensor({vector}{suffix}), torch.tensor([{rows}, {usual}]{suffix}), torch.tensor({whole}), 2{given})"
        )
    return tuple(calls)
