"""Expressions and simple statements drawn from the grammar."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from tests.fuzz import aliases
from tests.fuzz.catalog import SURROUNDINGS
from tests.fuzz.grammar import CONSTANTS, EXPRESSIONS, NAMES
from tests.fuzz.scope import Scope
from tests.fuzz.simple import SHOWN

MOST_NESTED = 2

FORMS: dict[str, dict[str, tuple[str, ...]]] = {
    kind: forms
    | ({aliases.GROUP: aliases.EXPRESSIONS[kind]} if kind in aliases.EXPRESSIONS else {})
    | {
        name: reads
        for name, surrounding in SURROUNDINGS.items()
        if (reads := getattr(surrounding, kind, ()))
    }
    for kind, forms in EXPRESSIONS.items()
}
"""The grammar's expressions, and those that read surroundings."""


def rarely(draw: Any, one_in: int) -> bool:
    """True once in a while; shrinks to False."""
    return bool(draw(st.integers(0, one_in - 1)) == one_in - 1)


def form_of(draw: Any, scope: Scope, forms: Mapping[str, Sequence[str]]) -> str:
    """One form of the groups that the program has."""
    groups = [group for group in forms if scope.has(group)]
    return str(draw(st.sampled_from(forms[draw(st.sampled_from(groups))])))


def fill(draw: Any, scope: Scope, form: str, depth: int) -> str:
    """A form with its fields filled in; variables it binds are bound afterwards."""
    text, new = "", []
    for literal, name, _, _ in string.Formatter().parse(form):
        text += literal
        if name is None:
            continue
        kind, _, role = name.partition("_")
        if role in ("new", "old"):
            names = st.sampled_from(NAMES[kind]) if role == "new" else variable(scope, kind)
            new.append(draw(names))
            text += new[-1]
        elif role == "name":
            text += draw(variable(scope, kind))
        elif kind == "shown":
            text += fill(draw, scope, draw(st.sampled_from(SHOWN)), 0)
        elif kind == "constant":
            text += draw(st.sampled_from(CONSTANTS))
        else:
            text += f"({draw(expression(scope, kind, depth))})"
    for name in new:
        scope.bind(name)
    return text


@st.composite
def variable(draw: Any, scope: Scope, kind: str) -> str:
    """A variable of a kind, bound unless the program is to have others."""
    if not scope.names(kind) or (scope.has("unbound") and rarely(draw, 20)):
        return str(draw(st.sampled_from(NAMES[kind])))
    return str(draw(st.sampled_from(scope.names(kind))))


@st.composite
def expression(draw: Any, scope: Scope, kind: str, depth: int = MOST_NESTED) -> str:
    """Text of an expression of a kind; `depth` says how many forms may be nested in one another."""
    if depth > 0 and (kind == "test" or draw(st.integers(0, 3)) > 4 - 2 * depth):
        return fill(draw, scope, form_of(draw, scope, FORMS[kind]), depth - 1)
    if kind == "test":
        return f"{draw(variable(scope, 'vector'))}.sum() > 0"
    if kind == "thing" and not scope.names("thing"):
        return "None"
    if kind == "number" and (not scope.names("number") or draw(st.booleans())):
        return str(draw(st.sampled_from(CONSTANTS)))
    if kind == "vector" and scope.closures and draw(st.booleans()):
        return f"{draw(st.sampled_from(scope.closures))}({draw(variable(scope, 'vector'))})"
    return str(draw(variable(scope, kind)))
